import { defineConfig } from "vite";

// Airflow's page brings React; the bundle takes it from there.
export default defineConfig({
  define: { "process.env.NODE_ENV": JSON.stringify("production") },
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
