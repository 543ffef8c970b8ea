#!/usr/bin/env bash
# @mikro-orm/pglite 7.2.1 (@mikro-orm/postgresql, too): em.upsert() of a row that exists changes it and leaves its
# version (the property by which flush() notices that somebody else has changed the row meanwhile) as it is; flush() and
# em.nativeUpdate() raise it. So who has read the row before writes over it, and no optimistic lock fails.
# Guess: the version is raised, and the older flush() is refused.
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
const Purse = new EntitySchema({
  name: "Purse",
  properties: {
    id: { type: "number", primary: true },
    coins: { type: "number" },
    note: { type: "string", default: "" },
    version: { type: "number", version: true },
  },
});
const orm = await MikroORM.init({ entities: [Purse], dbName: "memory://" });
await orm.schema.create();
const read = () => orm.em.fork().findOneOrFail("Purse", 1);
await orm.em.fork().insert("Purse", { id: 1, coins: 10 });
const first = (await read()).version;
const em = orm.em.fork();
const older = await em.findOneOrFail("Purse", 1);
await orm.em.fork().upsert("Purse", { id: 1, coins: 99 });
const afterUpsert = (await read()).version;
older.coins += 1;
const flushed = await em.flush().then(
  () => "taken",
  () => "refused",
);
const { coins } = await read();
await orm.close();
console.log("guess: version 1 becomes 2, the older change is refused, 99 coins");
console.log(`seen:  version ${first} stays ${afterUpsert}, the older change is ${flushed}, ${coins} coins`);
process.exit(afterUpsert === first && flushed === "taken" && coins === 11 ? 0 : 1);
JS
node look.mjs
