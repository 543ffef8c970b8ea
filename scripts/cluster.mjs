// Runs the processes of ecosystem.config.js under pm2: in the foreground without arguments, else as the pm2
// command given (`npm run cluster -- start ecosystem.config.js`, `-- list`, `-- logs`, `-- reload all`, `--
// kill`). pm2 is under the AGPL and no part of Laurel: the first run fetches it into scripts/pm2, in the
// versions of the package-lock.json there.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";

/** How often this looks whether npm, which has started it, is still there, in ms. */
const LOOK_EVERY_MS = 500;

const root = join(import.meta.dirname, "..");
const home = process.env.PM2_HOME || join(root, ".laurel/pm2");
mkdirSync(home, { recursive: true });

const folder = join(import.meta.dirname, "pm2");
const read = (...path) => JSON.parse(readFileSync(join(folder, ...path), "utf8"));

/** npm records what it installed when it is done, so an interrupted install does not count. */
const isFetched = () => {
  const record = "node_modules/.package-lock.json";
  const { version } = read("package-lock.json").packages["node_modules/pm2"];
  return existsSync(join(folder, record)) && read(record).packages["node_modules/pm2"]?.version === version;
};

const fetchPm2 = () => {
  console.error(
    "Fetching pm2 (AGPL-3.0) into scripts/pm2; docs/guides/operate.md says how to do without it ...",
  );
  const flags = ["ci", "--loglevel=error", "--no-audit", "--no-fund", "--no-progress"];
  const { status } = spawnSync("npm", flags, { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  if (status === 0) return;
  console.error("pm2 could not be fetched: npm's words are above.");
  process.exit(1);
};

if (!isFetched()) fetchPm2();

const args = process.argv.slice(2);
const [program, ...rest] =
  args.length > 0 ? ["pm2", ...args] : ["pm2-runtime", "start", "ecosystem.config.js"];
const bin = join(root, "node_modules/.bin");
// In pm2's cluster mode processes run on the Node of its daemon, and that one on the Node of this command.
const child = spawn(join(bin, "node"), [join(folder, "node_modules/pm2/bin", program), ...rest], {
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
