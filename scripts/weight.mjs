// Says how much the packages weigh that `npm start` installs, the heaviest first, and fails above the limit.
// `npm run weight`, or with the folder of another clone.
import { existsSync, lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * The most that they may take on a disk, in MB. The library of Stripe is 23 of them: types and code of all
 * its API, for CommonJS and modules. A process loads it with its first call to Stripe. That of ACME is 6,
 * with its HTTP client; a process loads it with its first order of a certificate.
 */
const LIMIT_MB = 284;
const SHOWN = 10;
const BLOCK_BYTES = 512;
const MB = 1_000_000;

/** Bytes on the disk below a folder, without packages inside packages; hard links count once. */
const weigh = (folder, seen) =>
  readdirSync(folder, { withFileTypes: true }).reduce((sum, entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return sum + weigh(path, seen);
    const { ino, blocks } = lstatSync(path);
    if (seen.has(ino)) return sum;
    seen.add(ino);
    return sum + blocks * BLOCK_BYTES;
  }, 0);

/** Outermost folders of the packages that a server gets; the compiler is only where tests are run too. */
const foldersOf = (root) => {
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
  const outer = (path) => /^node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0];
  const names = Object.entries(packages).flatMap(([path, { dev, devOptional }]) =>
    path === "" || dev || devOptional ? [] : [outer(path)],
  );
  const hasTests = existsSync(join(root, "node_modules/mocha"));
  return [...new Set(names)].filter((path) => !hasTests || !path.startsWith("node_modules/@typescript/"));
};

const root = process.argv[2] ?? join(import.meta.dirname, "..");
const seen = new Set();
const weights = foldersOf(root)
  .flatMap((path) => {
    try {
      return [{ path, bytes: weigh(join(root, path), seen) }];
    } catch (error) {
      // Optional packages of other systems are not there.
      if (error.code === "ENOENT") return [];
      throw error;
    }
  })
  .toSorted((a, b) => b.bytes - a.bytes);
const total = weights.reduce((sum, { bytes }) => sum + bytes, 0) / MB;
for (const { path, bytes } of weights.slice(0, SHOWN))
  console.log(`${(bytes / MB).toFixed(1).padStart(8)} MB  ${path}`);
console.log(`${total.toFixed(1).padStart(8)} MB  in ${weights.length} packages; the limit is ${LIMIT_MB} MB`);
if (total > LIMIT_MB) process.exitCode = 1;
