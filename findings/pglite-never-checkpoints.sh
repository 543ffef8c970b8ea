#!/usr/bin/env bash
# @electric-sql/pglite 0.5.8 has no checkpointer, and writing runs none in its place: max_wal_size and
# checkpoint_timeout are shown as in any PostgreSQL and do nothing. The log of a database that stays open grows with
# every change, and all of it is read again after a crash; close() and the statement `checkpoint` shorten it.
# Guess: with max_wal_size=64MB the folder of the log stays at about 64 MB, as in a server.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact @electric-sql/pglite@0.5.8
cat >look.mjs <<'JS'
import { readdirSync, readFileSync, statSync } from "node:fs";
import { PGlite } from "@electric-sql/pglite";

const { version } = JSON.parse(readFileSync("node_modules/@electric-sql/pglite/package.json", "utf8"));
console.log(`PGlite ${version}, Node ${process.version}`);
const sizeMb = () =>
  readdirSync("data/pg_wal")
    .map((name) => statSync(`data/pg_wal/${name}`))
    .reduce((sum, file) => sum + (file.isFile() ? file.size / 2 ** 20 : 0), 0);
const db = await PGlite.create({
  dataDir: "data",
  startParams: [...PGlite.defaultStartParams, "-c", "max_wal_size=64MB", "-c", "min_wal_size=32MB"],
});
const { rows } = await db.query("show max_wal_size");
await db.exec("create table changes (what text)");
for (let round = 0; round < 10; round++)
  await db.exec("insert into changes select repeat('x', 1000) from generate_series(1, 30000)");
const open = sizeMb();
await db.exec("checkpoint");
const after = sizeMb();
await db.close();
console.log(`max_wal_size:     ${rows[0].max_wal_size}`);
console.log("guess:            about 64 MB of log after 300 MB of changes");
console.log(`the log:          ${open} MB`);
console.log(`after checkpoint: ${after} MB`);
process.exit(rows[0].max_wal_size === "64MB" && open > 250 && after <= 80 ? 0 : 1);
JS
node look.mjs
