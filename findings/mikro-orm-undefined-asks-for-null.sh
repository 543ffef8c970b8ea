#!/usr/bin/env bash
# @mikro-orm/pglite 7.2.1 (@mikro-orm/postgresql, too): a condition whose value is undefined is not left out but becomes
# `is null`. find(Player, { team: query.team }), where the query has no team, returns the players without one, and
# count, nativeUpdate and nativeDelete take the same.
# Guess: undefined means no condition, as in JSON and in other libraries of its kind; or an error.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact @mikro-orm/core@7.2.1 @mikro-orm/pglite@7.2.1 @electric-sql/pglite@0.5.8
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { EntitySchema } from "@mikro-orm/core";
import { MikroORM } from "@mikro-orm/pglite";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`@mikro-orm/pglite ${versionOf("@mikro-orm/pglite")}, Node ${process.version}`);
const Player = new EntitySchema({
  name: "Player",
  properties: { id: { type: "number", primary: true }, team: { type: "string", nullable: true } },
});
const orm = await MikroORM.init({ entities: [Player], dbName: "memory://" });
await orm.schema.create();
const em = orm.em.fork();
await em.insertMany("Player", [
  { id: 1, team: "red" },
  { id: 2, team: null },
  { id: 3, team: "blue" },
]);
const query = {};
const found = (await em.find("Player", { team: query.team }, { orderBy: { id: "asc" } })).map(({ id }) => id).join(", ");
await orm.close();
console.log("guess: 1, 2, 3");
console.log(`seen:  ${found}`);
process.exit(found === "2" ? 0 : 1);
JS
node look.mjs
