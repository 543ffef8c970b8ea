#!/usr/bin/env bash
# @electric-sql/pglite 0.5.8 on Node 24.21.0: a database that needs 300 MB passes 800 MB for a second, once its code is
# warm. V8 optimises functions of WebAssembly by how often they ran, and one of PGlite's (107 KB of code) takes some
# 600 MB while it is compiled. Who sets the limit of a container by what the process needs at rest loses the process
# minutes after it started. `--trace-wasm-compilation-times` tells the function, `--liftoff-only` compiles nothing anew;
# nearly all of it is one phase (`--turbo-stats-wasm`: the first that copies the graph). Node 26.10.0 does without.
# Guess: the process's highest memory is that of its first queries: compilers take some tens of MB.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact @electric-sql/pglite@0.5.8 node24@npm:node@24.21.0 node26@npm:node@26.10.0
cat >use.mjs <<'JS'
import { PGlite } from "@electric-sql/pglite";

const mb = (bytes) => Math.round(bytes / 2 ** 20);
const db = await PGlite.create({ dataDir: "data" });
await db.exec("create table if not exists scores (player int, score int)");
const first = mb(process.resourceUsage().maxRSS * 1024);
for (let round = 0; round < 20; round++)
  await db.exec("insert into scores select n, n % 7 from generate_series(1, 20000) n; select sum(score) from scores");
// Compilers run beside it.
await new Promise((done) => setTimeout(done, 5000));
const now = mb(process.memoryUsage().rss);
console.log(JSON.stringify({ first, highest: mb(process.resourceUsage().maxRSS * 1024), now }));
await db.close();
JS
cat >look.mjs <<'JS'
import { execFileSync } from "node:child_process";

const run = (major, ...flags) =>
  JSON.parse(execFileSync(`node_modules/node${major}/bin/node`, [...flags, "use.mjs"], { encoding: "utf8" }));
// Makes the files, which takes memory of its own.
run(24, "--liftoff-only");
const [usual, liftoff, newer] = [run(24), run(24, "--liftoff-only"), run(26)];
console.log("PGlite 0.5.8; MB of memory after the first statement, at most, and at the end");
console.log("guess:          the highest is within 150 of both others");
console.log(`Node 24.21.0:   ${JSON.stringify(usual)}`);
console.log(`--liftoff-only: ${JSON.stringify(liftoff)}`);
console.log(`Node 26.10.0:   ${JSON.stringify(newer)}`);
const isLower = ({ highest }) => highest < usual.highest - 250;
process.exit(usual.highest > usual.now + 250 && isLower(liftoff) && isLower(newer) ? 0 : 1);
JS
node look.mjs
