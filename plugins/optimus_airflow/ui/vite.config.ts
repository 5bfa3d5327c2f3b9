import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";

import { defineConfig } from "vite";

// The bundle names the sources it was made of, so that a test can tell whether it is theirs without node.
const sources = createHash("sha256");
const files = readdirSync("src").filter((name) => !name.includes(".test.")).map((name) => `src/${name}`);
for (const name of [...files, "package-lock.json", "vite.config.ts"].sort()) sources.update(readFileSync(name));

// Airflow's page brings React; the bundle takes it from there.
export default defineConfig({
  define: { "process.env.NODE_ENV": JSON.stringify("production"), __SOURCES__: JSON.stringify(`sources ${sources.digest("hex")}`) },
  build: {
    outDir: "bundle",
    lib: { entry: "src/main.tsx", name: "OptimusUi", formats: ["iife"], fileName: () => "optimus.js" },
    rollupOptions: {
      external: ["react", "react/jsx-runtime", "react-router-dom"],
      output: {
        globals: { react: "React", "react/jsx-runtime": "ReactJSXRuntime", "react-router-dom": "ReactRouterDOM" },
      },
    },
  },
});
