import { randomUUID } from "node:crypto";
import { unique } from "./bodies.ts";
import type { Known } from "./operations.ts";
import { onePerSide, type Side } from "../app/sides.ts";

const currency = () => ({
  key: unique("coins"),
  name: "Coins",
  description: "Text",
  iconUrl: "https://example.com/coin.png",
  decimals: 2,
  minBalance: 0,
  maxBalance: 1_000_000,
  initialBalance: 100,
  overflow: "REJECT",
  expiryDays: 30,
});
const campaign = () => ({
  key: unique("campaign"),
  name: "Double XP",
  applies: "xp",
  factor: 2,
  startsAt: "2026-01-01T00:00:00Z",
  expiresAt: "2126-01-01T00:00:00Z",
});
const boost = () => ({
  boostKey: unique("boost"),
  applies: "xp",
  factor: 1.5,
  durationSeconds: 3_600,
  uses: 3,
  stacking: "EXTEND",
});

/** A project may have 20. */
export const aCurrency = onePerSide(async (side): Promise<string> => {
  const made = currency();
  await side.make("/currencies", made);
  return made.key;
});

const aHold = async (side: Side): Promise<string> => {
  const player = await side.player();
  const path = `/players/${player}/balances/${await aCurrency(side)}/holds`;
  return `/players/${player}/holds/${await side.make(path, { amount: 5, expiresInSeconds: 3_600 })}`;
};

const ofBalance = (step: string, body: () => object): Known => ({
  call: async (side) => ({
    path: `/players/${await side.player()}/balances/${await aCurrency(side)}/${step}`,
    body: body(),
  }),
});

const ofLives = (step: string, body: object): Known => ({
  call: async (side) => {
    await side.set({ lives: { enabled: true } });
    return { path: `/players/${await side.player()}/lives${step}`, body };
  },
});

export const economyOperations: Record<string, Known> = {
  listCurrencies: { call: () => ({ path: "/currencies" }) },
  createCurrency: { call: () => ({ path: "/currencies", body: currency() }) },
  getCurrency: { call: async (side) => ({ path: `/currencies/${await aCurrency(side)}` }) },
  updateCurrency: {
    call: async (side) => ({
      path: `/currencies/${await aCurrency(side)}`,
      body: { name: "New", description: null, maxBalance: 500 },
    }),
  },
  archiveCurrency: {
    call: async (side) => ({ path: `/currencies/${await side.active("/currencies", currency)}` }),
  },

  listBoosts: { call: () => ({ path: "/boosts" }) },
  createBoost: { call: () => ({ path: "/boosts", body: campaign() }) },
  getBoost: { call: async (side) => ({ path: `/boosts/${await side.make("/boosts", campaign())}` }) },
  updateBoost: {
    call: async (side) => ({
      path: `/boosts/${await side.make("/boosts", campaign())}`,
      body: { name: "New", factor: 3, version: 1 },
    }),
  },
  archiveBoost: { call: async (side) => ({ path: `/boosts/${await side.make("/boosts", campaign())}` }) },

  listBalances: { call: async (side) => ({ path: `/players/${await side.player()}/balances` }) },
  grantCurrency: ofBalance("grant", () => ({
    amount: 5,
    reason: "swept",
    expiresAt: "2126-01-01T00:00:00Z",
    reference: randomUUID(),
  })),
  spendCurrency: ofBalance("spend", () => ({ amount: 5, reason: "swept", reference: randomUUID() })),
  holdCurrency: ofBalance("holds", () => ({ amount: 5, expiresInSeconds: 3_600, reference: randomUUID() })),
  captureHold: { call: async (side) => ({ path: `${await aHold(side)}/capture`, body: { amount: 3 } }) },
  releaseHold: { call: async (side) => ({ path: `${await aHold(side)}/release`, body: {} }) },

  getLives: ofLives("", {}),
  consumeLives: ofLives("/consume", { amount: 1, reason: "swept" }),
  grantLives: {
    ...ofLives("/grant", { refill: "FULL", reason: "swept" }),
    also: [() => ({ amount: 2 }), () => ({ unlimitedSeconds: 60 })],
  },

  listPlayerBoosts: { call: async (side) => ({ path: `/players/${await side.player()}/boosts` }) },
  startPlayerBoost: {
    call: async (side) => ({ path: `/players/${await side.player()}/boosts`, body: boost() }),
  },
  endPlayerBoost: {
    call: async (side) => {
      const path = `/players/${await side.player()}/boosts`;
      return { path: `${path}/${await side.make(path, boost())}` };
    },
  },

  listLedger: { call: async (side) => ({ path: `/players/${await side.player()}/ledger` }) },
  verifyLedger: { call: async (side) => ({ path: `/players/${await side.player()}/ledger/verify` }) },
};
