// Builds the console into console/dist where its sources have changed since the last build: `npm run console`.
// A server that starts in development runs it with --background: last in line for the CPU, and until that
// server ends. Its own files in dist begin with a dot: they are not served.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { setPriority } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";

const isBackground = process.argv.includes("--background");
/** Also checks the types, for which it takes more packages than a build. */
const isChecked = process.argv.includes("--check");
const root = join(import.meta.dirname, "..");
const folder = process.argv.slice(2).find((text) => !text.startsWith("--")) ?? join(root, "console");
const dist = join(folder, "dist");
const [stampFile, lockFile, next] = [".stamp", ".lock", ".next"].map((name) => join(dist, name));
/** Which lockfile npm has installed, written when it was done. */
const installedFile = join(folder, "node_modules/.laurel-lock");
const LAST_LINES = 20;
const LOOK_EVERY_MS = 500;
const LOCK_MS = 10_000;

const read = (file) => (fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "");
const hashOf = (texts) => createHash("sha256").update(JSON.stringify(texts)).digest("hex");

/** The files below a folder, relative to it, in the order of names, but what is in `left`. */
const filesOf = (from, left = [], path = "") => {
  const entries = fs.readdirSync(join(from, path), { withFileTypes: true });
  return entries
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const at = path === "" ? entry.name : `${path}/${entry.name}`;
      if (left.includes(at)) return [];
      return entry.isDirectory() ? filesOf(from, left, at) : [at];
    });
};

const below = (from, left) => filesOf(from, left).map((file) => [file, read(join(from, file))]);
const NOT_OWN = ["node_modules", "dist"];

/**
 * What decides whether there may be anything to do: the console's files, and the server's, all of which may say
 * what operations take and answer.
 */
const stampOf = () => {
  const server = join(folder, "..");
  const own = below(folder, [...NOT_OWN, "src/generated"]);
  return hashOf([...own, ...below(join(server, "src")), read(join(server, "package.json"))]);
};

/** What a build is made of: the console's files with what was generated of the API, but for its types. */
const sourcesOf = () => hashOf(below(folder, [...NOT_OWN, "src/generated/api.d.ts"]));

const npm = async (...args) => {
  const env = { ...process.env, PATH: `${join(root, "node_modules/.bin")}${delimiter}${process.env.PATH}` };
  try {
    await promisify(execFile)("npm", args, { cwd: folder, env, maxBuffer: 64 << 20 });
  } catch (cause) {
    const { stdout = "", stderr = "", message } = cause;
    const last = (`${stdout}${stderr}`.trim() || message).split("\n").slice(-LAST_LINES).join("\n");
    const text = `The console could not be built: npm ${args.join(" ")} failed\n${last}`;
    throw new Error(text, { cause });
  }
};

const lastBuild = () => JSON.parse(read(stampFile) || "{}");

/**
 * Puts a build in place, its page last; the assets of the build before stay, for pages that are open.
 * @returns its files
 */
const place = (before = []) => {
  const files = filesOf(next);
  for (const file of [...files.filter((one) => one !== "index.html"), "index.html"]) {
    fs.mkdirSync(dirname(join(dist, file)), { recursive: true });
    fs.renameSync(join(next, file), join(dist, file));
  }
  const kept = [...files, ...before.filter((file) => file.startsWith("assets/")), ".stamp", ".lock", ".next"];
  for (const file of filesOf(dist, kept)) fs.rmSync(join(dist, file));
  return files;
};

const install = async () => {
  const wanted = hashOf(read(join(folder, "package-lock.json")));
  const [installed, extent] = read(installedFile).split(" ");
  if (installed === wanted && (!isChecked || extent === "all")) return;
  await npm(
    "ci",
    isChecked ? "--include=dev" : "--omit=dev",
    "--loglevel=error",
    "--no-audit",
    "--no-fund",
    "--no-progress",
  );
  fs.mkdirSync(dirname(installedFile), { recursive: true });
  fs.writeFileSync(installedFile, `${wanted} ${isChecked ? "all" : "run"}`);
};

/** @returns whether there is a new build: most changes of the server change nothing of its API */
const build = async (stamp) => {
  await install();
  await npm("run", "generate");
  const [last, sources] = [lastBuild(), sourcesOf()];
  const isNew = last.sources !== sources;
  let { files } = last;
  if (isNew) {
    fs.rmSync(next, { recursive: true, force: true });
    await npm("run", "build", "--", "--outDir", next);
    files = place(files);
    fs.rmSync(next, { recursive: true });
  }
  fs.writeFileSync(stampFile, JSON.stringify({ stamp, sources, files }));
  return isNew;
};

/** Whoever has the lock touches it again and again, so that one of a process that was killed does not count. */
const isHeld = () => {
  const seenMs = fs.statSync(lockFile, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return Date.now() - seenMs < LOCK_MS;
};

/** Waits while another process builds. */
const lock = async () => {
  fs.mkdirSync(dist, { recursive: true });
  for (;;) {
    try {
      fs.writeFileSync(lockFile, String(process.pid), { flag: "wx" });
      const touch = () => fs.utimesSync(lockFile, new Date(), new Date());
      return setInterval(touch, LOOK_EVERY_MS).unref();
    } catch {
      if (isHeld()) await delay(LOOK_EVERY_MS);
      else fs.rmSync(lockFile, { force: true });
    }
  }
};

if (isBackground) {
  setPriority(10);
  const parent = process.ppid;
  // The server leads no more: all that it has started here goes too, which is a process group of its own.
  setInterval(() => process.ppid === parent || process.kill(0, "SIGKILL"), LOOK_EVERY_MS).unref();
}
let held;
try {
  if (!fs.existsSync(join(folder, "package.json"))) throw new Error(`There is no console in ${folder}`);
  held = await lock();
  const startedAt = Date.now();
  const stamp = stampOf();
  if (lastBuild().stamp !== stamp && (await build(stamp))) {
    console.log(`The console was built in ${Math.round((Date.now() - startedAt) / 1000)} s`);
  } else if (!isBackground) console.log("The console is up to date");
  if (isChecked) {
    await install();
    await npm("run", "types");
  }
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  clearInterval(held);
  if (read(lockFile) === String(process.pid)) fs.rmSync(lockFile);
}
