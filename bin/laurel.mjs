#!/usr/bin/env node
// The command line. Starts src/main.ts on this Node when it runs TypeScript as it stands, else on the Node 26
// that comes with the packages, which are installed first when they are missing.
import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const [major, minor] = process.versions.node.split(".").map(Number);
const runsTypeScript = major >= 24 || (major === 22 && minor >= 18);
const node = runsTypeScript ? process.execPath : join(root, "node_modules/.bin/node");

// npm packs no lockfile, without which nothing can be installed as it was tested.
if (!existsSync(join(root, "package-lock.json"))) {
  console.error(`Laurel runs from a clone of its repository, not from an installed package (${root}).`);
  console.error("Clone the repository, and run `npm start` or `node bin/laurel.mjs` there.");
  process.exit(1);
}

const setup = spawnSync(process.execPath, [join(root, "scripts/setup.mjs"), "--runtime"], {
  stdio: "inherit",
});
if (setup.status !== 0) process.exit(setup.status ?? 1);

const args = [join(root, "src/main.ts"), "--stop-with-parent", ...process.argv.slice(2)];
const child = spawn(node, args, { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  // The terminal itself sends Ctrl-C to the child as well.
  process.on(signal, () => (signal === "SIGINT" && process.stdin.isTTY ? undefined : child.kill(signal)));
}
child.on("error", (error) => {
  console.error(`laurel could not be started on ${node}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (!signal) process.exit(code ?? 1);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
