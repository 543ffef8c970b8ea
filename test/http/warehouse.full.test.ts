import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import type { WarehouseStore } from "../../src/domain/analytics/warehouse/store.ts";
import { createDirectoryStore } from "../../src/platform/warehouse/directory.ts";
import { type Change, aChange, apply } from "../support/analytics/changes.ts";
import { sendEvents } from "../support/analytics/histories.ts";
import { anAsker, type Asker } from "../support/analytics/questions.ts";
import { startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { temporaryDir } from "../support/processes/process.ts";
import { exportNow, filesIn, manifestIn } from "../support/warehouse/export.ts";
import { openWarehouse, type Warehouse } from "../support/warehouse/load.ts";
import { assertLoaded } from "../support/warehouse/truth.ts";
import { cases } from "../support/properties.ts";
import { madeOnce } from "../support/made.ts";

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
    await sendEvents(api, asker.tenant, events);
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
    await sendEvents(api, tenant, [
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
    await eventually(
      async () =>
        must(await api.get(`/api/v1/jobs/${body.id}`, { key: tenant.key }), 200).status === "SUCCEEDED",
    );
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
