// Opens one address of Airflow as a user and prints what a person would meet there, as one JSON object.
// Usage: node look.mjs '{"url": ..., "token": ..., "theme": "light"|"dark", "width": 1280, "shot": path?, "wait": text?, "root": selector?,
//   "answers": [[pattern of addresses, status or "never" or "late", body?], ...]?, "steps": [["select", label, option], ...]?}'
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

import { chromium } from "playwright-core";

const asked = JSON.parse(process.argv[2]);
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const root = asked.root ?? "#optimus";
const args = ["--no-sandbox", "--disable-dev-shm-usage"];
const packed = process.env.CHROMIUM ? null : (await import("@sparticuz/chromium")).default;
const MOST_TABS = 200;
const LATE_MILLISECONDS = 3000;

/** Presses Tab until the focus, which has to be seen, is on something of that name. */
const tabTo = async (page, name) => {
  for (let pressed = 0; pressed < MOST_TABS; pressed += 1) {
    await page.keyboard.press("Tab");
    const found = await page.evaluate(() => {
      const at = document.activeElement;
      const { outlineStyle, boxShadow } = getComputedStyle(at);
      return { name: at.getAttribute("aria-label") ?? at.textContent, seen: outlineStyle !== "none" || boxShadow !== "none" };
    });
    if (found.name !== name) continue;
    if (!found.seen) throw new Error(`nobody sees that the focus is on ${name}`);
    return;
  }
  throw new Error(`Tab does not lead to ${name}`);
};

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || (await packed.executablePath()),
  args: packed ? [...packed.args, ...args] : args,
});
try {
  const context = await browser.newContext({ viewport: { width: asked.width, height: 900 } });
  const origin = new URL(asked.url).origin;
  await context.addCookies([{ name: "_token", value: asked.token, url: origin }]);
  await context.addInitScript((theme) => localStorage.setItem("theme", theme), asked.theme);
  const page = await context.newPage();
  const elsewhere = [];
  const errors = [];
  let alerts = 0;
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol.startsWith("http") && url.origin !== origin) elsewhere.push(request.url());
  });
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("dialog", (dialog) => ((alerts += 1), dialog.dismiss()));
  for (const [pattern, status, body] of asked.answers ?? [])
    await page.route(pattern, async (route) => {
      if (status === "never") return;
      if (status !== "late") return route.fulfill({ status, json: body ?? {} });
      await new Promise((done) => setTimeout(done, LATE_MILLISECONDS));
      await route.continue();
    });
  await page.goto(asked.url);
  await page.waitForSelector(root, { timeout: 60_000 });
  if (asked.wait) await page.getByText(asked.wait).first().waitFor({ timeout: 60_000 });
  for (const name of asked.click ?? []) await page.locator("#optimus").getByRole("button", { name, exact: true }).first().click();
  for (const [what, name, value] of asked.steps ?? []) {
    const field = page.locator("#optimus").getByLabel(name ?? "", { exact: true }).first();
    if (what === "select") await field.selectOption({ label: value });
    else if (what === "fill") await field.fill(value);
    else if (what === "click") await page.locator("#optimus").getByRole("button", { name, exact: true }).first().click();
    else if (what === "tab to") await tabTo(page, name);
    else if (what === "press") await page.keyboard.press(name);
    else if (what === "see") await page.locator("#optimus").getByText(name).first().waitFor();
    else if (what === "gone") await page.locator("#optimus").getByText(name).first().waitFor({ state: "hidden" });
    else if (what === "answered") await page.waitForResponse(name);
    else if (what === "sign out") await context.clearCookies();
    else if (what === "offline") await page.route("**/optimus/api/**", (route) => route.abort());
    else throw new Error(`no such step: ${what}`);
  }
  if (asked.after) await page.locator("#optimus").getByText(asked.after).first().waitFor({ timeout: 60_000 });
  await page.evaluate(axe);
  if (asked.scroll) await page.locator("#optimus").getByText(asked.scroll, { exact: true }).first().evaluate((found) => found.scrollIntoView());
  const found = await page.evaluate((at) => globalThis.axe.run(at), root);
  if (asked.shot) await page.screenshot({ path: asked.shot });
  console.log(JSON.stringify({
    address: page.url(),
    focus: await page.evaluate(() => document.activeElement.textContent),
    text: await page.locator(root).innerText(),
    theme: await page.evaluate(() => document.documentElement.className),
    wide: await page.evaluate((at) => document.querySelector(at).scrollWidth - document.querySelector(at).clientWidth, root),
    serious: found.violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)}`),
    elsewhere, errors, alerts,
  }));
} finally {
  await browser.close();
}
