import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { SECTIONS } from "../../src/domain/registries/configuration/document.ts";
import { aKey, type Answer, aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";

type Document = Record<string, unknown>;
/** What a project has, and a document that an import into it refuses. */
type Refused = { given?: Document; document: Document; prune?: true; status: number; reason?: string };

const counting = { metric: { eventTypes: ["x"], aggregate: "count" }, threshold: 1 };
const gems = { currencies: { gems: 1 } };
const paying = {
  key: "pay",
  name: "Pay",
  triggers: [{ kind: "EVENT", eventTypes: ["x"] }],
  actions: [{ type: "adjust_currency", currencyKey: "coins", amount: 1 }],
};
const coins = { currencies: [{ key: "coins", name: "Coins" }] };
const board = (metric: object) => [{ leaderboard: { key: "top", name: "Top", metric } }];
const report = (parameters: object) => ({ key: "r", name: "R", report: "experiments", parameters });
const quest = {
  key: "q",
  name: "Q",
  steps: [{ key: "a", name: "A", kind: "EVENT", metric: counting.metric, target: 1 }],
};
const hasXp = { type: "player_property", field: "xp", op: "gte", value: 1 };
const unknown = { status: 400, reason: "UNKNOWN_REFERENCE" };

/** By section, what an import refuses that a comparison alone does not see. */
const REFUSED: Readonly<Record<string, readonly Refused[]>> = {
  currencies: [
    {
      given: { ...coins, rules: [{ status: "ACTIVE", rule: paying }] },
      document: { currencies: [] },
      prune: true,
      status: 409,
      reason: "IN_USE",
    },
  ],
  segments: [
    {
      given: { segments: [{ key: "s", name: "S", kind: "STATIC" }] },
      document: { segments: [{ key: "s", name: "S", kind: "DYNAMIC", definition: { all: [hasXp] } }] },
      status: 400,
    },
  ],
  rewards: [
    { document: { rewards: [{ key: "r", name: "R", kind: "BUNDLE", bundle: gems }] }, ...unknown },
    {
      given: { rewards: [{ key: "r", name: "R", kind: "BUNDLE", bundle: { xp: 1 } }] },
      document: { rewards: [{ key: "r", name: "R", kind: "PRIZE", fulfilment: "EXTERNAL" }] },
      status: 400,
    },
  ],
  badges: [
    {
      document: {
        badges: [
          {
            key: "b",
            name: "B",
            progressMetric: counting.metric,
            tiers: [{ tier: 1, name: "One", threshold: 1, rewards: gems }],
          },
        ],
      },
      ...unknown,
    },
  ],
  streaks: [
    {
      document: {
        streaks: [
          {
            key: "s",
            name: "S",
            period: "DAY",
            qualify: { parts: [counting] },
            milestones: [{ length: 2, rewards: gems }],
          },
        ],
      },
      ...unknown,
    },
  ],
  levels: [{ document: { levels: [{ key: "3", name: "Three", rewards: gems }] }, ...unknown }],
  boosts: [
    {
      document: {
        boosts: [
          {
            key: "b",
            name: "B",
            applies: "currency:gems",
            factor: 2,
            startsAt: "2026-01-01T00:00:00Z",
            expiresAt: "2099-01-01T00:00:00Z",
          },
        ],
      },
      status: 400,
    },
  ],
  quests: [{ document: { quests: [{ ...quest, rewards: gems }] }, ...unknown }],
  adventures: [
    {
      document: {
        adventures: [
          {
            key: "a",
            name: "A",
            startsAt: "2026-01-01T00:00:00Z",
            endsAt: "2099-01-01T00:00:00Z",
            items: [{ questKey: "none", order: 1 }],
          },
        ],
      },
      ...unknown,
    },
  ],
  leaderboards: [
    {
      given: { leaderboards: board({ source: "XP" }) },
      document: { leaderboards: board({ source: "LEVEL" }) },
      status: 409,
      reason: "LEADERBOARD_FIXED",
    },
  ],
  rules: [
    { document: { rules: [{ status: "ACTIVE", rule: paying }] }, status: 400 },
    {
      given: { ...coins, rules: [{ status: "ACTIVE", rule: paying }] },
      document: { rules: [{ status: "DRAFT", rule: paying }] },
      status: 409,
      reason: "RULE_PUBLISHED",
    },
    {
      document: {
        rules: [
          {
            status: "ACTIVE",
            rule: {
              key: "loop",
              name: "Loop",
              triggers: [{ kind: "EVENT", eventTypes: ["player.xp_granted"] }],
              actions: [{ type: "grant_xp", amount: 1 }],
            },
          },
        ],
      },
      status: 400,
      reason: "RULE_LOOP",
    },
  ],
  analyticsReports: [
    {
      document: { analyticsReports: [report({ metric: "events", ruleId: "none" })] },
      status: 400,
    },
  ],
};

describe("a document that is compared, or imported as a dry run", () => {
  let tenant: Tenant;
  const api = madeOnce(startApp);
  beforeEach(async () => {
    tenant = await aTenant(api);
  });

  const exported = async (): Promise<unknown> =>
    must(await api.get("/api/v1/config/export", { key: tenant.key }), 200);
  const post = (path: string, document: Document, more: object = {}, options: object = {}): Promise<Answer> =>
    api.post(
      `/api/v1/config/${path}`,
      { document: { format: "laurel/1", ...document }, ...more },
      { key: tenant.key, ...options },
    );
  const refusalOf = ({ status, body }: Answer): unknown => {
    const { code, message, reason, details } = body.error;
    return { status, code, message, reason, details };
  };

  it("is refused for everything that an import refuses, in each section, and changes nothing", async () => {
    assert.deepEqual(Object.keys(REFUSED).toSorted(), SECTIONS.toSorted(), "every section has a refusal");
    for (const [section, cases] of Object.entries(REFUSED))
      for (const { given, document, prune = false, status, reason } of cases) {
        tenant = await aTenant(api);
        if (given) must(await post("import", given), 200);
        const before = await exported();
        const compared = await post("diff", document, { prune });
        const dry = await post("import", document, { prune, dryRun: true });
        assert.deepEqual(await exported(), before, section);
        const done = await post("import", document, { prune });
        assertError(done, status, reason);
        assert.ok(JSON.stringify(done.body.error).includes(section), `${section} is named`);
        assert.deepEqual([refusalOf(compared), refusalOf(dry)], [refusalOf(done), refusalOf(done)], section);
      }
  });

  it("says what an import does, which does not have happened, also with an idempotency key", async () => {
    must(await post("import", { ...coins, rules: [{ status: "ACTIVE", rule: paying }] }), 200);
    const before = await exported();
    const { updatedAt } = must(await api.get("/api/v1/rules/pay", { key: tenant.key }), 200);
    const document = {
      timezone: "Asia/Tokyo",
      settings: { tracesDays: 3, allowLevelDown: true },
      levelCurve: { type: "LINEAR", params: { base: 10, maxLevel: 20 } },
      currencies: [...coins.currencies, { key: "gems", name: "Gems" }],
      quests: [{ ...quest, rewards: gems }],
      leaderboards: board({ source: "XP" }),
      rules: [{ status: "PAUSED", rule: paying }],
    };
    const more = { prune: true };
    const compared = must(await post("diff", document, more), 200);
    const once = { headers: { "X-Idempotency-Key": randomUUID() } };
    const dry = must(await post("import", document, { ...more, dryRun: true }, once), 200);
    const again = must(await post("import", document, { ...more, dryRun: true }, once), 200);
    const keyed = must(
      await post("diff", document, more, { headers: { "X-Idempotency-Key": randomUUID() } }),
      200,
    );
    assert.deepEqual(await exported(), before);
    assert.equal(must(await api.get("/api/v1/rules/pay", { key: tenant.key }), 200).updatedAt, updatedAt);
    assert.deepEqual(must(await api.get("/api/v1/jobs", { key: tenant.key }), 200).data, []);
    const { data } = must(
      await api.get("/api/v1/audit-log?action=config.imported", { token: tenant.token }),
      200,
    );
    assert.equal(data.length, 1, "the first import alone");
    const done = must(await post("import", document, more), 200);
    assert.deepEqual([dry.applied, again.applied, done.applied], [false, false, true]);
    for (const { changes } of [compared, dry, again, keyed]) assert.deepEqual(changes, done.changes);
  });

  it("is tried while events are taken, whose rules are those that there are", async () => {
    must(await post("import", { ...coins, rules: [{ status: "ACTIVE", rule: paying }] }), 200);
    const paused = { rules: [{ status: "PAUSED", rule: paying }] };
    const event = { externalUserId: "ada", eventType: "x" };
    const [, sent] = await Promise.all([
      post("import", paused, { dryRun: true }),
      api.post("/api/v1/events?wait=true", event, { key: tenant.key }),
      post("diff", paused),
    ]);
    must(sent, 200);
    const later = must(await api.post("/api/v1/events?wait=true", event, { key: tenant.key }), 200);
    for (const { effects } of [sent.body, later])
      assert.deepEqual(
        effects.map(({ type }: { type: string }) => type).filter((type: string) => type.endsWith("granted")),
        ["player.currency_granted"],
      );
  });

  it("is refused as a dry run to whoever could not import it, and compared for them", async () => {
    const designer = await aMember(api, tenant.tenantId, "DESIGNER");
    const as = { key: undefined, token: designer.token, headers: { "X-Project-ID": tenant.projectId } };
    const settings = { settings: { tracesDays: 3 } };
    assertError(await post("import", settings, { dryRun: true }, as), 403, "INSUFFICIENT_ROLE");
    assert.equal(must(await post("diff", settings, {}, as), 200).changes.length, 1);
    const manager = { key: await aKey(api, { ...tenant, scopes: ["config:manage"] }) };
    const rules = { ...coins, rules: [{ status: "DRAFT", rule: paying }] };
    assertError(await post("import", rules, { dryRun: true }, manager), 403, "INSUFFICIENT_SCOPE");
    const reader = { key: await aKey(api, { ...tenant, scopes: ["config:read"] }) };
    assert.equal(must(await post("diff", rules, {}, reader), 200).changes.length, 2);
    assertError(await post("import", rules, { dryRun: true }, reader), 403, "INSUFFICIENT_SCOPE");
  });
});
