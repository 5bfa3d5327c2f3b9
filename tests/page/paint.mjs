// Times how long pages take until what a person came for is there, in turns, in one browser.
// Usage: node paint.mjs '{"token": ..., "rounds": 7, "pages": {name: {"url": ..., "shows": [selector, text]}}}'
// Prints name -> milliseconds since the navigation began, the first with an empty cache.
import { chromium } from "playwright-core";

const { token, rounds, pages } = JSON.parse(process.argv[2]);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const times = Object.fromEntries(Object.keys(pages).map((name) => [name, []]));
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  for (const { url } of Object.values(pages)) await context.addCookies([{ name: "_token", value: token, url: new URL(url).origin }]);
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, { url, shows }] of Object.entries(pages)) {
      const page = await context.newPage();
      await page.goto(url, { waitUntil: "commit" });
      const handle = await page.waitForFunction(
        ([selector, text]) => [...document.querySelectorAll(selector)].some((found) => found.textContent.includes(text)) && performance.now(),
        shows, { polling: 20, timeout: 120_000 },
      );
      times[name].push(Math.round(await handle.jsonValue()));
      await page.close();
    }
  }
  console.log(JSON.stringify(times));
} finally {
  await browser.close();
}
