#!/usr/bin/env bash
# @mikro-orm/pglite 7.2.1 (@mikro-orm/postgresql, too): a nested em.transactional() has the same objects as the outer
# one. When the nested one is rolled back to its savepoint, and the outer one goes on, these keep the values and the
# version that were never stored. The next flush() of the outer transaction then fails with an optimistic lock error,
# though nobody else has touched the row, and all of it is lost.
# Guess: what the nested transaction did is undone in the objects as well, and the outer one commits.
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
    note: { type: "string", nullable: true },
    version: { type: "number", version: true },
  },
});
const orm = await MikroORM.init({ entities: [Purse], dbName: "memory://" });
await orm.schema.create();
await orm.em.fork().insert("Purse", { id: 1, coins: 1 });
let shown;
const outcome = await orm.em
  .fork()
  .transactional(async (outer) => {
    const purse = await outer.findOneOrFail("Purse", 1);
    purse.coins = 50;
    await outer.flush();
    const nested = outer.transactional(async (inner) => {
      (await inner.findOneOrFail("Purse", 1)).coins = 60;
      await inner.flush();
      throw new Error("this part is given up");
    });
    await nested.catch(() => undefined);
    shown = purse.coins;
    purse.note = "goes on";
  })
  .then(
    () => "committed",
    (error) => error.name,
  );
const { coins } = await orm.em.fork().findOneOrFail("Purse", 1);
await orm.close();
console.log("guess: 50 in the outer transaction, which is committed; 50 stored");
console.log(`seen:  ${shown} in the outer transaction: ${outcome}; ${coins} stored`);
process.exit(shown === 60 && outcome === "OptimisticLockError" && coins === 1 ? 0 : 1);
JS
node look.mjs
