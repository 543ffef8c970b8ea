#!/usr/bin/env bash
# @electric-sql/pglite 0.5.8: statement_timeout can be set and is shown, and ends nothing: a statement that computes
# runs to its end, on the thread of JavaScript, whatever it takes. Nothing in the process can end it, as no timer runs
# meanwhile; only one in a worker can be terminated, with its database.
# Guess: the statement fails after its time with "canceling statement due to statement timeout".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact @electric-sql/pglite@0.5.8
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { PGlite } from "@electric-sql/pglite";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`@electric-sql/pglite ${versionOf("@electric-sql/pglite")}, Node ${process.version}`);
const db = await PGlite.create();
await db.query("set statement_timeout = '20ms'");
const { rows: shown } = await db.query("show statement_timeout");
const startMs = performance.now();
const outcome = await db.query("select count(*)::int as n from generate_series(1, 2000000)").then(
  ({ rows }) => `an answer, ${rows[0].n}`,
  (error) => error.message,
);
const isLong = performance.now() - startMs > 40;
await db.close();
console.log("guess: canceling statement due to statement timeout");
console.log(`seen:  ${outcome}, with a timeout of ${shown[0].statement_timeout}, after ${isLong ? "more than" : "less than"} twice of it`);
process.exit(outcome === "an answer, 2000000" && isLong ? 0 : 1);
JS
node look.mjs
