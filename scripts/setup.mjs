// Makes node_modules match package-lock.json. Runs before every script, on whatever Node the machine has, so
// it uses nothing but Node 20. With --runtime, packages for development may be missing.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { basename, delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const NODE_MIN_MAJOR = 20;
const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const isRuntime = process.argv.includes("--runtime");

/** Standard output belongs to the script that runs next. */
const say = (text) => process.stderr.write(`${text}\n`);

const packagesOf = (lockfile) => {
  try {
    return JSON.parse(readFileSync(join(root, lockfile), "utf8")).packages;
  } catch {
    return undefined;
  }
};

/** Headers and manuals of Node, whose binary itself is linked elsewhere. */
const MANUALS = ["node/node_modules"];
/** The compiler, which npm installs even without packages for development, as an optional peer of another. */
const COMPILER = ["typescript", "@typescript"];

const remove = (folders) => {
  for (const folder of folders) rmSync(join(root, "node_modules", folder), { recursive: true, force: true });
};

/**
 * Whether the packages are there, those for development too unless told otherwise. npm records what it
 * installed when it is done, so an interrupted install does not match.
 */
const isInstalled = (isForRunning) => {
  const installed = packagesOf("node_modules/.package-lock.json");
  if (!installed || !existsSync(join(root, "node_modules/.bin/node"))) return false;
  return Object.entries(packagesOf("package-lock.json") ?? {}).every(([path, wanted]) => {
    if (path === "" || (isForRunning && wanted.dev)) return true;
    const found = installed[path];
    if (!found) return Boolean(wanted.optional || wanted.devOptional || wanted.peer);
    return found.version === wanted.version && found.integrity === wanted.integrity;
  });
};

/** npm itself must not run on the Node inside node_modules, which it is about to replace. */
const environment = () => {
  const path = (process.env.PATH ?? "").split(delimiter);
  const outside = path.filter((folder) => !folder.includes(join("node_modules", ".bin")));
  return { ...process.env, PATH: outside.join(delimiter) };
};

const npm = () => {
  const { npm_execpath: script, npm_node_execpath: node } = process.env;
  return script && basename(script) === "npm-cli.js" && node && existsSync(node) ? [node, script] : ["npm"];
};

/** Packages for development are added to those of a server, which may be running and goes on needing them. */
const commandOf = () => {
  if (isRuntime) return ["ci", "--omit=dev"];
  return isInstalled(true) ? ["install", "--no-save", "--include=dev"] : ["ci", "--include=dev"];
};

const install = () => {
  const startedAt = Date.now();
  say(isRuntime ? "Installing packages ..." : "Installing packages (about half a minute) ...");
  const [command, ...prefix] = npm();
  const flags = [...commandOf(), "--loglevel=error", "--no-audit", "--no-fund", "--no-progress"];
  const { status, stdout, stderr, error } = spawnSync(command, [...prefix, ...flags], {
    cwd: root,
    env: environment(),
    encoding: "utf8",
  });
  if (status === 0 && isRuntime) remove(COMPILER);
  if (status === 0) return say(`Packages installed in ${Math.round((Date.now() - startedAt) / 1000)} s.`);
  say(error ? String(error) : `${stdout}${stderr}`.trim());
  say(
    "\nThe packages could not be installed: npm's words are above. Usual causes: no way to the npm registry,",
  );
  say("a full disk, or a package-lock.json that does not match package.json (`npm install` repairs that).");
  process.exit(1);
};

if (Number.parseInt(process.versions.node, 10) < NODE_MIN_MAJOR) {
  say(`Laurel needs Node.js ${NODE_MIN_MAJOR} or newer; this is ${process.version}.`);
  process.exit(1);
}
if (!isInstalled(isRuntime)) install();
remove(MANUALS);
