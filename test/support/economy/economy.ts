import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { currencyKind } from "../../../src/domain/economy/currencies/kind.ts";
import { createDefinition } from "../../../src/domain/economy/definitions/definitions.ts";
import { DomainError } from "../../../src/domain/kernel/errors.ts";
import { RuleDocument } from "../../../src/domain/evaluation/language/document.ts";
import { publishRule } from "../../../src/domain/rules/lifecycle/publishing.ts";
import { createRule } from "../../../src/domain/rules/rules.ts";
import type { Work } from "../../../src/domain/kernel/work.ts";
import type { Crashing } from "../domain/crashing.ts";
import type { Domain } from "../domain/domain.ts";
import { chainHash } from "../../../src/domain/evaluation/ledger/append.ts";
import type { LedgerRow } from "../../../src/domain/evaluation/effects.ts";
import type { PlayerState } from "../../../src/domain/evaluation/player-state.ts";
import { type Answer, aTenant, type Tenant, type TestApp } from "../app/app.ts";
import { must } from "../http/client.ts";

const goal = [{ kind: "EVENT", eventTypes: ["goal"] }];
const positive = { all: [{ type: "event_property", path: "points", op: "gt", value: 0 }] };
const RULES = [
  {
    key: "goals",
    name: "Goals",
    triggers: goal,
    conditions: positive,
    actions: [
      { type: "grant_xp", amount: { $ref: "event.properties.points" } },
      { type: "adjust_currency", currencyKey: "coins", amount: 3 },
    ],
  },
  {
    key: "bonus",
    name: "Bonus",
    triggers: goal,
    conditions: positive,
    limits: { perPlayer: [{ max: 2, window: "LIFETIME" }] },
    actions: [{ type: "grant_xp", amount: 10 }],
  },
];

/**
 * A project in which a `goal` with positive points gives them as XP and 3 coins, and the first two goals of a
 * player 10 XP more; with an XP board, and its players.
 */
export const anEconomy = async (
  domain: Domain,
  { players, coinsMax }: { players: readonly string[]; coinsMax: number },
): Promise<string> => {
  const projectId = await domain.addProject();
  const coins = currencyKind.schema.parse({ key: "coins", name: "Coins", maxBalance: coinsMax });
  const made = { definition: coins, createdBy: "test" };
  await domain.transact((work) => createDefinition(work, projectId, currencyKind, made));
  await domain.addBoard(projectId, { key: "xp", name: "XP", metric: { source: "XP" } });
  for (const document of RULES) {
    const rule = RuleDocument.parse(document);
    await domain.transact((work) => createRule(work, projectId, rule, "test"));
    await domain.transact((work) => publishRule(work, projectId, rule.key, { publishedBy: "test" }));
  }
  for (const name of players) await domain.addPlayer(projectId, name);
  return projectId;
};

/**
 * Does one thing in a transaction, which first dies at a statement.
 * @returns false when it was refused with a CONFLICT
 */
export const surviveCrash = async (
  { crashing, domain }: { crashing: Crashing; domain: Domain },
  { crash, isAfter }: { crash: number; isAfter: boolean },
  run: (work: Work) => Promise<unknown>,
): Promise<boolean> => {
  const once = () => domain.transact(run);
  try {
    if (await crashing.crashAt(crash, isAfter, once)) await once();
    return true;
  } catch (error) {
    if (error instanceof DomainError && error.code === "CONFLICT") return false;
    throw error;
  }
};

/** A ledger that starts from nothing: numbered without a gap, chained, no key twice, balances the sums. */
export const assertLedger = (ledger: readonly LedgerRow[], player: PlayerState): void => {
  let tip: string | null = null;
  const sums = new Map<string, number>();
  ledger.forEach((row, i) => {
    assert.equal(row.seq, i + 1);
    tip = chainHash(tip, row);
    assert.equal(row.hash, tip);
    assert.notEqual(row.amount, 0);
    const asset = row.currencyKey ?? row.asset;
    const sum = (sums.get(asset) ?? 0) + row.amount;
    sums.set(asset, sum);
    if (row.asset !== "LIVES") assert.equal(row.balanceAfter, sum, `${asset} after entry ${row.seq}`);
  });
  assert.deepEqual([player.ledgerSeq, player.ledgerHash], [ledger.length, tip]);
  assert.equal(new Set(ledger.map(({ key }) => key)).size, ledger.length, "keys");
  assert.equal(player.xp, sums.get("XP") ?? 0);
  for (const [key, { balance, held }] of player.balances) {
    assert.equal(balance, sums.get(key) ?? 0, `balance of ${key}`);
    assert.ok(held >= 0 && held <= balance, `${held} held of ${balance} ${key}`);
  }
};

/** What is in the lots of a currency. */
export const lotsOf = ({ lots }: PlayerState, key: string): number =>
  (lots.get(key) ?? []).reduce((sum, { remaining }) => sum + remaining, 0);

/** A player of a project with currencies, and what is done with balances. */
export type Purse = {
  player: string;
  tenant: Tenant;
  /** Below the player's path. */
  post(path: string, body?: object): Promise<Answer>;
  grant(currencyKey: string, amount: number, more?: object): Promise<Answer>;
  spend(currencyKey: string, amount: number, more?: object): Promise<Answer>;
  hold(currencyKey: string, amount: number, more?: object): Promise<Answer>;
  /** By key of the currency. */
  balances(): Promise<Record<string, Record<string, unknown>>>;
  /** Balance, available, held, earned and spent. */
  numbers(currencyKey: string): Promise<unknown[]>;
  /** What the player's stream says of currencies: type, currency, amount and balance. */
  told(): Promise<unknown[][]>;
  verify(): Promise<Record<string, unknown>>;
  /** Lets the time of what expires come. */
  letPass(table: "currency_lots" | "currency_holds"): Promise<unknown>;
};

/** Currencies that expire, that have bounds, and that stop at a maximum. */
export const CURRENCIES = [
  { key: "coins", expiryDays: 10 },
  { key: "gems", initialBalance: 20, minBalance: 5, maxBalance: 30, overflow: "REJECT" },
  { key: "points", maxBalance: 10 },
];

/** A tenant whose project has currencies with these settings. */
export const aTreasury = async (api: TestApp, currencies: readonly object[]): Promise<Tenant> => {
  const tenant = await aTenant(api);
  for (const more of currencies)
    must(await api.post("/api/v1/currencies", { name: "A currency", ...more }, { key: tenant.key }), 201);
  return tenant;
};

/** A new player of the tenant's project. */
export const aPurse = async (api: TestApp, tenant: Tenant): Promise<Purse> => {
  const { key } = tenant;
  const made = await api.post("/api/v1/players", { externalUserId: randomUUID() }, { key });
  const player: string = must(made, 201).id;
  const path = `/api/v1/players/${player}`;
  const post = (below: string, body: object = {}) => api.post(`${path}/${below}`, body, { key });
  const onBalance =
    (step: string, body: object = {}) =>
    (currencyKey: string, amount: number, more = {}) =>
      post(`balances/${currencyKey}/${step}`, { amount, ...body, ...more });
  const purse: Purse = {
    player,
    tenant,
    post,
    grant: onBalance("grant"),
    spend: onBalance("spend"),
    hold: onBalance("holds", { expiresInSeconds: 600 }),
    balances: async () => {
      const { data } = must(await api.get(`${path}/balances`, { key }), 200);
      return Object.fromEntries(data.map((one: { currencyKey: string }) => [one.currencyKey, one]));
    },
    numbers: async (currencyKey) => {
      const one = (await purse.balances())[currencyKey]!;
      return ["balance", "available", "held", "lifetimeEarned", "lifetimeSpent"].map((name) => one[name]);
    },
    told: async () => {
      const rows = await api.sql<{ type: string; data: Record<string, unknown> }>`
        select type, data from outbox where player_id = ${player} and type like 'player.currency%'
        order by player_seq`;
      return rows.map(({ type, data }) => [type, data["currencyKey"], data["amount"], data["balance"]]);
    },
    verify: async () => must(await api.get(`${path}/ledger/verify`, { key }), 200),
    letPass: (table) =>
      api.sql`update ${sql.ref(table)} set expires_at = now() - interval '1 second'
        where player_id = ${player}`,
  };
  return purse;
};
