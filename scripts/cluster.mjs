// Runs the processes of ecosystem.config.js under pm2: in the foreground without arguments, else as the pm2
// command given (`npm run cluster -- start ecosystem.config.js`, `-- list`, `-- logs`, `-- reload all`, `--
// kill`).
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { delimiter, join } from "node:path";

/** How often this looks whether npm, which has started it, is still there, in ms. */
const LOOK_EVERY_MS = 500;

const root = join(import.meta.dirname, "..");
const home = process.env.PM2_HOME || join(root, ".laurel/pm2");
mkdirSync(home, { recursive: true });

const args = process.argv.slice(2);
const [program, ...rest] =
  args.length > 0 ? ["pm2", ...args] : ["pm2-runtime", "start", "ecosystem.config.js"];
const bin = join(root, "node_modules/.bin");
// In pm2's cluster mode processes run on the Node of its daemon, and that one on the Node of this command.
const child = spawn(join(bin, "node"), [join(root, "node_modules/pm2/bin", program), ...rest], {
  cwd: root,
  stdio: "inherit",
  env: {
    ...process.env,
    PATH: `${bin}${delimiter}${process.env.PATH ?? ""}`,
    PM2_HOME: home,
    PM2_DISCRETE_MODE: "true",
  },
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  // The terminal itself sends Ctrl-C to the child as well.
  process.on(signal, () => (signal === "SIGINT" && process.stdin.isTTY ? undefined : child.kill(signal)));
}
const parent = process.ppid;
const watch = setInterval(() => {
  if (process.ppid === parent) return;
  clearInterval(watch);
  child.kill("SIGTERM");
}, LOOK_EVERY_MS);
watch.unref();
child.on("error", (error) => {
  console.error(String(error));
  process.exitCode = 1;
});
child.on("exit", (code) => {
  process.exitCode = code ?? 1;
});
