import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { sql } from "kysely";
import { endBoosts, expireCurrencies } from "../../src/jobs/jobs.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { cases } from "../support/properties.ts";
import { madeOnce } from "../support/made.ts";

const kinds = [
  "grant",
  "spend",
  "hold",
  "capture",
  "release",
  "event",
  "boost",
  "lots",
  "holds",
  "job",
] as const;
const step = fc.record({
  kind: fc.constantFrom(...kinds),
  currency: fc.constantFrom("coins", "gems"),
  amount: fc.integer({ min: 1, max: 40 }),
});
type Step = { kind: (typeof kinds)[number]; currency: string; amount: number };

/** Numbers of one currency as the tables have them. */
type Books = Record<"key" | "balance" | "held" | "total" | "lots" | "holds", string | number | null>;

describe("the economy of a player, through the API", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  before(async () => {
    const lasting = { name: "A currency", expiryDays: 1 };
    must(await post("/currencies", { ...lasting, key: "coins", initialBalance: 15 }), 201);
    must(await post("/currencies", { ...lasting, key: "gems", maxBalance: 60 }), 201);
    const rule = {
      key: "trade",
      name: "Coins for gems",
      triggers: [{ kind: "EVENT", eventTypes: ["traded"] }],
      actions: [
        {
          type: "adjust_currency",
          currencyKey: "coins",
          amount: { op: "sub", args: [0, { $ref: "event.properties.coins" }] },
        },
        {
          type: "adjust_currency",
          currencyKey: "gems",
          amount: { $ref: "event.properties.coins" },
          boostable: true,
        },
      ],
    };
    must(await post("/rules", rule), 201);
    must(await post("/rules/trade/publish"), 200);
  });

  const post = (path: string, body: object = {}): Promise<Answer> =>
    api.post(`/api/v1${path}`, body, { key: tenant.key });

  /** Lets half of what would expire be over. */
  const age = (table: string, player: string) =>
    api.app.transact(({ db }) =>
      sql`update ${sql.ref(table)} set expires_at = now() - interval '1 second'
        where player_id = ${player} and hashtext(id::text) % 2 = 0`.execute(db),
    );

  type Given = { player: string; holds: string[]; one: Step };
  type Run = (given: Given) => Promise<Answer | undefined>;
  const settle: Run = async ({ player, holds, one: { kind } }) => {
    const hold = holds.shift();
    return hold === undefined ? undefined : post(`/players/${player}/holds/${hold}/${kind}`);
  };
  const change: Run = ({ player, one: { kind, currency, amount } }) =>
    post(`/players/${player}/balances/${currency}/${kind}`, { amount });
  const none = async (done: Promise<unknown>): Promise<undefined> => void (await done);
  const runs: Record<Step["kind"], Run> = {
    grant: change,
    spend: change,
    hold: async ({ player, holds, one: { currency, amount } }) => {
      const body = { amount, expiresInSeconds: 600 };
      const held = await post(`/players/${player}/balances/${currency}/holds`, body);
      if (held.status === 201) holds.push(held.body.id);
      return held;
    },
    capture: settle,
    release: settle,
    event: ({ player, one }) => {
      const properties = { coins: one.amount };
      return post("/events?wait=true", { playerId: player, eventType: "traded", properties });
    },
    boost: ({ player, one }) => {
      const boost = { boostKey: "b", applies: "currency:gems", factor: 1.5, durationSeconds: 600, uses: 2 };
      const stacking = one.amount % 2 === 0 ? "MULTIPLY" : "EXTEND";
      return post(`/players/${player}/boosts`, { ...boost, stacking });
    },
    lots: ({ player }) => none(age("currency_lots", player)),
    holds: ({ player }) => none(age("currency_holds", player)),
    job: async () => {
      await expireCurrencies.run(api.app, "*");
      return none(endBoosts.run(api.app, "*"));
    },
  };

  const books = (player: string): Promise<Books[]> =>
    api.app.transact(async ({ db }) => {
      const { rows } = await sql<Books>`
        select b.currency_key as key, b.balance, b.held,
          (select sum(amount) from ledger_entries l where l.player_id = b.player_id
            and l.currency_key = b.currency_key) as total,
          (select coalesce(sum(remaining), 0) from currency_lots o where o.player_id = b.player_id
            and o.currency_key = b.currency_key) as lots,
          (select coalesce(sum(amount), 0) from currency_holds h where h.player_id = b.player_id
            and h.currency_key = b.currency_key and h.status = 'HELD') as holds
        from player_balances b where b.player_id = ${player}`.execute(db);
      return rows;
    });

  const assertBooks = async (player: string): Promise<void> => {
    for (const { key, ...row } of await books(player)) {
      const [balance, held, total, lots, holds] = Object.values(row).map(Number);
      assert.deepEqual({ key, total, lots, holds }, { key, total: balance, lots: balance, holds: held });
      assert.ok(held! <= balance!);
    }
    const verdict = await api.get(`/api/v1/players/${player}/ledger/verify`, { key: tenant.key });
    assert.equal(must(verdict, 200).valid, true);
  };

  /** What an answer was: its status or the reason of its refusal. */
  const outcomeOf = ({ status, body }: Answer): string => {
    assert.ok(status < 300 || status === 409, JSON.stringify(body));
    return body?.error?.reason ?? String(status);
  };

  it("keeps its books over any program of grants, spending, holds, rules and expiry", async () => {
    const seen = new Set<string>();
    const play = async (program: readonly Step[]): Promise<void> => {
      const { id: player } = must(await post("/players", { externalUserId: randomUUID() }), 201);
      const holds: string[] = [];
      for (const one of program) {
        const answer = await runs[one.kind]({ player, holds, one });
        if (answer) seen.add(outcomeOf(answer));
      }
      await assertBooks(player);
      await expireCurrencies.run(api.app, "*");
      await assertBooks(player);
    };
    const programs = fc.array(step, { minLength: 10, maxLength: 40 });
    await fc.assert(fc.asyncProperty(programs, play), { numRuns: cases(15) });
    for (const outcome of ["201", "200", "INSUFFICIENT_FUNDS"]) assert.ok(seen.has(outcome), outcome);
  });
});
