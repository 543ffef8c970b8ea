import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { type Answer, aTenant, type Tenant, type TestApp } from "../app/app.ts";
import { must } from "../http/client.ts";

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
    told: () =>
      api.app.transact(async ({ db }) => {
        const { rows } = await sql<{ type: string; data: Record<string, unknown> }>`
          select type, data from outbox where player_id = ${player} and type like 'player.currency%'
          order by player_seq`.execute(db);
        return rows.map(({ type, data }) => [type, data["currencyKey"], data["amount"], data["balance"]]);
      }),
    verify: async () => must(await api.get(`${path}/ledger/verify`, { key }), 200),
    letPass: (table) =>
      api.app.transact(({ db }) =>
        sql`update ${sql.ref(table)} set expires_at = now() - interval '1 second'
          where player_id = ${player}`.execute(db),
      ),
  };
  return purse;
};
