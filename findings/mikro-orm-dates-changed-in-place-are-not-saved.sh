#!/usr/bin/env bash
# @mikro-orm/pglite 7.2.1 (@mikro-orm/postgresql, too): flush() finds changes inside of JSON values and lists of an
# entity, but not of a Date that was changed by its own methods (setTime, setHours): what is compared is the same
# object. The entity shows the new time, and the database keeps the old one.
# Guess: all three are saved.
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
const Game = new EntitySchema({
  name: "Game",
  properties: {
    id: { type: "number", primary: true },
    startsAt: { type: "datetime" },
    settings: { type: "json" },
    tags: { type: "array" },
  },
});
const orm = await MikroORM.init({ entities: [Game], dbName: "memory://" });
await orm.schema.create();
await orm.em.fork().insert("Game", { id: 1, startsAt: new Date(0), settings: { level: 1 }, tags: ["a"] });
const em = orm.em.fork();
const game = await em.findOneOrFail("Game", 1);
game.settings.level = 2;
game.tags.push("b");
game.startsAt.setTime(60_000);
await em.flush();
const { settings, tags, startsAt } = await orm.em.fork().findOneOrFail("Game", 1);
await orm.close();
console.log("guess: level 2, tags a,b, 1970-01-01T00:01:00.000Z");
console.log(`seen:  level ${settings.level}, tags ${tags}, ${startsAt.toISOString()}`);
process.exit(settings.level === 2 && tags.length === 2 && startsAt.getTime() === 0 ? 0 : 1);
JS
node look.mjs
