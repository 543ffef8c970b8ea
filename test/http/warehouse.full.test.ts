import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import type { WarehouseStore } from "../../src/domain/analytics/warehouse/store.ts";
import { expireGrants } from "../../src/domain/economy/rewards/player-rewards.ts";
import { createDirectoryStore } from "../../src/platform/warehouse/directory.ts";
import { aChange, anAsker, apply, type Asker, type Change } from "../support/analytics/histories.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { temporaryDir } from "../support/processes/process.ts";
import { cases } from "../support/properties.ts";
import {
  assertLoaded,
  exportNow,
  filesIn,
  manifestIn,
  openWarehouse,
  statementsOf,
  type Warehouse,
} from "../support/warehouse/stage.ts";
import { trackAll } from "../support/data/data.ts";
import { jobResult } from "../support/app/processed.ts";

type Body = ReturnType<typeof must>;

describe("the files of a warehouse on what belongs to no event", () => {
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  let warehouse: Warehouse;
  const api = madeOnce(startApp);
  before(async () => {
    // What other tests have left is in files of no interest.
    const others = await temporaryDir();
    await exportNow(api.app, createDirectoryStore(others.path));
    await others.remove();
  });
  const tenant = madeForEach(() => aTenant(api));
  beforeEach(async () => {
    dir = await temporaryDir();
    warehouse = await openWarehouse(dir.path);
    await post("/currencies", { key: "gems", name: "Gems" }, 201);
    for (const externalUserId of ["ada", "bob"]) await post("/players", { externalUserId }, 201);
  });
  afterEach(async () => {
    warehouse.close();
    await dir.remove();
  });

  const post = async (path: string, body: object, status = 200): Promise<Body> =>
    must(await api.post(`/api/v1${path}`, body, { key: tenant.key }), status);
  const posted = async (path: string, body: object): Promise<Body> => {
    const answer = await api.post(`/api/v1${path}`, body, { key: tenant.key });
    assert.ok(answer.status < 300, JSON.stringify(answer.body));
    return answer.body;
  };
  const ended = (job: Body): Promise<unknown> => jobResult(api, tenant, job.id);
  const exportAndLoad = async (): Promise<void> => {
    await exportNow(api.app, createDirectoryStore(dir.path));
    await warehouse.load();
    await assertLoaded(api.app, warehouse, tenant.projectId);
  };
  const give = (user: string, amount: number): Promise<Body> =>
    posted(`/players/ext:${user}/balances/gems/grant`, { amount, reason: "a secret of hers" });
  const chest = (more: object = {}): Promise<Body> =>
    post(
      "/rewards",
      {
        key: "chest",
        name: "Chest",
        kind: "BUNDLE",
        bundle: { xp: 50, currencies: { gems: 3 } },
        price: { currencyKey: "gems", amount: 10 },
        ...more,
      },
      201,
    );
  const buy = (user: string, quantity: number): Promise<Body> =>
    posted("/rewards/chest/purchase", { playerId: `ext:${user}`, quantity });

  it("have grants, spending and purchases with their prices, each once", async () => {
    await chest();
    await give("ada", 100);
    const bought = await buy("ada", 2);
    await posted("/players/ext:ada/balances/gems/spend", {
      amount: 5,
      reason: "A hat",
      reference: "order-1",
    });
    await exportAndLoad();
    const lines = await warehouse.ask(
      `select "asset" as asset, "amount"::varchar as amount, "kind" as kind, "refKey" as ref from ledger
       where "projectId" = '${tenant.projectId}' order by "seq"`,
    );
    assert.deepEqual(lines, [
      { asset: "CURRENCY", amount: "100", kind: "API", ref: null },
      { asset: "CURRENCY", amount: "-20", kind: "API", ref: null },
      { asset: "XP", amount: "100", kind: "REWARD", ref: "chest" },
      { asset: "CURRENCY", amount: "6", kind: "REWARD", ref: "chest" },
      { asset: "CURRENCY", amount: "-5", kind: "API", ref: null },
    ]);
    const [grant] = await warehouse.ask(
      `select "grantId" as id, "priceCurrency" as currency, "priceAmount"::varchar as amount from rewards
       where "projectId" = '${tenant.projectId}'`,
    );
    assert.deepEqual(grant, { id: bought.id, currency: "gems", amount: "20" });
    const sold = [{ rewardKey: "chest", priceCurrency: "gems", sold: "2", paid: "20" }];
    assert.deepEqual(await warehouse.ask(statementsOf("sold")), sold);
    await buy("bob", 1).then(assert.fail, () => undefined);
    await exportAndLoad();
    assert.deepEqual(await warehouse.ask(statementsOf("sold")), sold);
    const kinds = manifestIn(dir.path).map(({ path }) => path.split("/")[0]);
    assert.deepEqual(kinds.toSorted(), ["ledger", "rewards"]);
    const text = [...filesIn(dir.path).values()].join("");
    assert.doesNotMatch(text, /secret of hers|A hat|order-1/);
  });

  it("tell of a grant again when it is claimed, taken back or over, and keep what it cost", async () => {
    await chest({ claimSeconds: 3_600 });
    await give("ada", 100);
    await buy("ada", 1);
    const grant = (user: string): Promise<Body> =>
      posted("/rewards/chest/grant", { playerId: `ext:${user}`, delivery: "CLAIM" });
    const [claimed, expired] = [await grant("ada"), await grant("bob")];
    const rule = {
      key: "chests",
      name: "Chests",
      triggers: [{ kind: "EVENT", eventTypes: ["won"] }],
      actions: [{ type: "grant_reward", rewardKey: "chest" }],
    };
    await post("/rules", rule, 201);
    await post("/rules/chests/publish", {});
    const event = await posted("/events?wait=true", { externalUserId: "bob", eventType: "won" });
    await exportAndLoad();
    const statuses = async (): Promise<unknown> =>
      (
        await warehouse.ask(
          `select "status" as status from rewards
           where "projectId" = '${tenant.projectId}' order by "grantId"`,
        )
      ).map(({ status }) => status);
    assert.deepEqual(await statuses(), ["GRANTED", "PENDING", "PENDING", "GRANTED"]);
    await posted(`/players/ext:ada/rewards/${claimed.id}/claim`, {});
    await api.sql`update reward_grants set expires_at = created_at
      where project_id = ${tenant.projectId}::uuid and id = ${expired.id}::uuid`;
    const only = { projectId: tenant.projectId };
    // The worker's sweep may come first.
    await api.app.transact((work) => expireGrants(work, 10, only));
    await ended(await posted(`/events/${event.eventId}/revert`, { reason: "test" }));
    await exportAndLoad();
    assert.deepEqual(await statuses(), ["GRANTED", "CLAIMED", "EXPIRED", "REVOKED"]);
    await warehouse.load();
    await assertLoaded(api.app, warehouse, tenant.projectId);
    const anew = await openWarehouse(dir.path);
    await anew.load();
    await assertLoaded(api.app, anew, tenant.projectId);
    anew.close();
  });

  it("say after merges and erasures what was paid, and name nobody", async () => {
    await post(
      "/rewards",
      {
        key: "prize",
        name: "Prize",
        kind: "PRIZE",
        fulfilment: "EXTERNAL",
        price: { currencyKey: "gems", amount: 7 },
      },
      201,
    );
    await give("bob", 100);
    const { id } = await posted("/rewards/prize/purchase", { playerId: "ext:bob" });
    await posted("/players/ext:ada/merge", { sourcePlayerId: "ext:bob" });
    await posted(`/players/ext:ada/rewards/${id}/fulfil`, {});
    await exportAndLoad();
    const asked = `select "status" as status, "priceAmount"::varchar as paid from rewards`;
    assert.deepEqual(await warehouse.ask(asked), [{ status: "FULFILLED", paid: "7" }]);
    await ended(await posted("/players/ext:ada/erase", { reason: "test" }));
    await exportAndLoad();
    assert.deepEqual(await warehouse.ask(asked), [{ status: "FULFILLED", paid: "7" }]);
    assert.doesNotMatch([...filesIn(dir.path).values()].join(""), /\bada\b|\bbob\b|secret/);
  });
});

/** Rules that give XP, levels and a badge for events of the histories. */
const defineGame = async (api: TestApp, { key }: Tenant): Promise<void> => {
  must(await api.post("/api/v1/badges", { key: "winner", name: "Winner" }, { key }), 201);
  for (const [rule, eventType, actions] of [
    ["seen", "seen", [{ type: "grant_xp", amount: 40 }]],
    [
      "won",
      "won",
      [
        { type: "grant_xp", amount: 150 },
        { type: "update_badge", badgeKey: "winner", operation: "AWARD" },
      ],
    ],
  ] as const) {
    const body = { key: rule, name: rule, triggers: [{ kind: "EVENT", eventTypes: [eventType] }], actions };
    must(await api.post("/api/v1/rules", body, { key }), 201);
    must(await api.post(`/api/v1/rules/${rule}/publish`, {}, { key }), 200);
  }
};

describe("the files for a warehouse", () => {
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  let store: WarehouseStore;
  let warehouse: Warehouse;

  const api = madeOnce(startApp);
  beforeEach(async () => {
    dir = await temporaryDir();
    store = createDirectoryStore(dir.path);
    warehouse = await openWarehouse(dir.path);
  });
  afterEach(async () => {
    warehouse.close();
    await dir.remove();
  });

  const exportAndLoad = async (): Promise<void> => {
    await exportNow(api.app, store);
    await warehouse.load();
  };

  const change = async (asker: Asker, one: Change): Promise<void> => {
    if ("rollUp" in one) return exportAndLoad();
    if (!("events" in one)) return apply(api, asker, one);
    const events = one.events.map(({ user, type, hour }) => ({
      externalUserId: user,
      eventType: type,
      // Late ones too, and several of one time.
      timestamp: new Date(Date.now() - 86_400_000 + Math.min(0, hour) * 3_600_000).toISOString(),
      properties: { hour, "a\n\u2028\"b'": ["ü", null, 9007199254740993n.toString()] },
      idempotencyKey: randomUUID(),
    }));
    await trackAll(api, asker.tenant, events);
  };

  it("give exactly the events and effects there are, after late ones, reverts, merges and erasures", () =>
    fc.assert(
      fc.asyncProperty(fc.array(aChange, { minLength: 2, maxLength: 14 }), async (changes) => {
        const asker = await anAsker(api);
        await defineGame(api, asker.tenant);
        await change(asker, { events: [{ user: "a", type: "won", hour: 0 }] });
        for (const one of changes) await change(asker, one);
        await exportAndLoad();
        await assertLoaded(api.app, warehouse, asker.tenant.projectId);
        // Whoever begins anew gets the same.
        const anew = await openWarehouse(dir.path);
        try {
          await anew.load();
          await assertLoaded(api.app, anew, asker.tenant.projectId);
        } finally {
          anew.close();
        }
      }),
      {
        numRuns: cases(12),
        // Texts with other ends of lines than a line feed, in a file that is written anew.
        examples: [[[{ rollUp: true }, { erase: "a" }, { rollUp: true }, { merge: ["a", "f"] }]]],
      },
    ));

  it("are those of the manifest, whole, and each of one project", async () => {
    const [one, other] = [await anAsker(api), await anAsker(api)];
    for (const asker of [one, other])
      await change(asker, { events: [{ user: asker.tenant.projectId, type: "seen", hour: 0 }] });
    await exportNow(api.app, store);
    const files = filesIn(dir.path);
    const listed = manifestIn(dir.path);
    assert.ok(listed.length >= 2);
    for (const { path, rows, bytes, sha256 } of listed) {
      const body = readFileSync(join(dir.path, path));
      assert.deepEqual([body.length, createHash("sha256").update(body).digest("hex")], [bytes, sha256]);
      const lines = files.get(path)!.trimEnd().split("\n");
      assert.equal(lines.length, rows);
      const [, projectId] = /project_id=([^/]+)\//.exec(path)!;
      for (const line of lines)
        assert.equal((JSON.parse(line) as Record<string, unknown>)["projectId"], projectId);
    }
    const records = [...files.keys()].filter((path) => !path.startsWith("manifest/"));
    assert.deepEqual(records.toSorted(), listed.map(({ path }) => path).toSorted());
    const own = [...files].filter(([path]) => path.includes(one.tenant.projectId)).map(([, text]) => text);
    assert.ok(own.length >= 2);
    assert.ok(!own.join("").includes(other.tenant.projectId));
  });

  it("hold nothing that identifies a person who was erased, in old files neither", async () => {
    const { tenant } = await anAsker(api);
    await defineGame(api, tenant);
    const sent = (user: string, secret: string) => ({
      externalUserId: user,
      eventType: "won",
      timestamp: new Date().toISOString(),
      properties: { secret },
      idempotencyKey: `${user}-${randomUUID()}`,
    });
    await trackAll(api, tenant, [
      sent("zoe-of-elsewhere", "her-secret"),
      sent("bob", "his-secret"),
      sent("zoe-of-elsewhere", "her-secret"),
    ]);
    await exportAndLoad();
    const before = filesIn(dir.path);
    assert.match([...before.values()].join(""), /zoe-of-elsewhere[^]*her-secret/);
    const { body } = await api.post(
      "/api/v1/players/ext:zoe-of-elsewhere/erase",
      { reason: "test" },
      { key: tenant.key },
    );
    await jobResult(api, tenant, body.id);
    await exportNow(api.app, store);
    const text = [...filesIn(dir.path)].flat().join("\n");
    assert.doesNotMatch(text, /zoe-of-elsewhere|her-secret/);
    assert.match(text, /his-secret/);
    const replaced = [...before.keys()].filter((path) => !existsSync(join(dir.path, path)));
    assert.equal(replaced.length, 1, "the old file is gone");
    await warehouse.load();
    await assertLoaded(api.app, warehouse, tenant.projectId);
    assert.deepEqual(await warehouse.ask(`select * from events where "externalUserId" like 'zoe%'`), []);
    const anew = await openWarehouse(dir.path);
    await anew.load();
    await assertLoaded(api.app, anew, tenant.projectId);
    anew.close();
  });
});
