import { unique } from "./bodies.ts";
import { aCurrency } from "./economy.ts";
import type { Known } from "./operations.ts";
import type { Side } from "../app/sides.ts";

const icon = "https://example.com/icon.png";

const badge = () => ({
  key: unique("badge"),
  name: "Explorer",
  description: "For those who go far",
  iconUrl: icon,
  category: "travel",
  rarity: "RARE",
  points: 5,
  secret: true,
  tiers: [
    { tier: 1, name: "Bronze", threshold: 5, iconUrl: icon, rewards: { xp: 5 } },
    { tier: 2, threshold: 10.5 },
  ],
  repeatable: true,
  maxAwards: 1_000,
  availableFrom: "2026-01-01T00:00:00Z",
  availableUntil: "2126-01-01T00:00:00Z",
});

const followed = () => ({
  key: unique("badge"),
  name: "Follower",
  tiers: [{ tier: 1, threshold: 3 }],
  progressMetric: { eventTypes: ["swept"], aggregate: "sum", property: "a" },
});

const bundle = () => ({
  xp: 5,
  lives: 1,
  boosts: [{ boostKey: "b", applies: "xp", factor: 2, durationSeconds: 3_600, uses: 2 }],
  addTags: ["given"],
});

const reward = () => ({
  key: unique("reward"),
  name: "A chest",
  description: "Full",
  iconUrl: icon,
  kind: "BUNDLE",
  bundle: bundle(),
  stock: 1_000_000,
  perPlayerLimit: 1_000,
  availableFrom: "2026-01-01T00:00:00Z",
  availableUntil: "2126-01-01T00:00:00Z",
  claimSeconds: 3_600,
});

const prize = (fulfilment: "CODE" | "EXTERNAL") => ({
  key: unique("prize"),
  name: "A mug",
  kind: "PRIZE",
  fulfilment,
});

/** Levels are numbers, and archived ones keep theirs. */
const levels = new Map<string, number>();
const level = ({ tenant: { projectId } }: Side) => {
  const number = (levels.get(projectId) ?? 200) + 1;
  levels.set(projectId, number);
  return {
    key: String(number),
    name: "Wanderer",
    iconUrl: icon,
    rewards: { lives: 1 },
    perks: { discount: 5 },
  };
};

/** Makes what the operation acts on, then the call. */
const of = (
  plural: "badges" | "rewards" | "levels",
  make: (side: Side) => object,
  body: unknown = {},
): Known => ({
  call: async (side) => ({ path: `/${plural}/${await side.make(`/${plural}`, make(side))}`, body }),
});

const players = async (side: Side, rest: string): Promise<string> =>
  `/players/${await side.player()}/${rest}`;

const forSale = async (side: Side): Promise<{ made: string; playerId: string }> => {
  const price = { currencyKey: await aCurrency(side), amount: 1 };
  const made = await side.make("/rewards", { ...prize("EXTERNAL"), price });
  return { made, playerId: await side.player() };
};

const granted = async (side: Side, definition: object, delivery: "AUTO" | "CLAIM"): Promise<string> => {
  const [made, playerId] = [await side.make("/rewards", definition), await side.player()];
  const grant = await side.make(`/rewards/${made}/grant`, { playerId, delivery });
  return `/players/${playerId}/rewards/${grant}`;
};

const foreignPlayer =
  (operation: "purchase" | "grant"): NonNullable<Known["foreign"]> =>
  async (own, other) => [
    {
      path: `/rewards/${(await forSale(own)).made}/${operation}`,
      body: { playerId: await other.player() },
    },
  ];

/** The operations on badges, levels, rewards, inboxes and bulk grants. */
export const rewardOperations: Readonly<Record<string, Known>> = {
  listBadges: { call: () => ({ path: "/badges" }) },
  createBadge: { call: () => ({ path: "/badges", body: badge() }), also: [followed] },
  getBadge: of("badges", badge),
  updateBadge: of("badges", badge, {
    name: "New",
    description: null,
    points: 7,
    tiers: [...badge().tiers, { tier: 3 }],
    version: 1,
  }),
  archiveBadge: of("badges", badge),
  listLevels: { call: () => ({ path: "/levels" }) },
  createLevel: { call: (side) => ({ path: "/levels", body: level(side) }) },
  getLevel: of("levels", level),
  updateLevel: of("levels", level, { name: "New", perks: { discount: 7 }, iconUrl: null, version: 1 }),
  archiveLevel: of("levels", level),
  listRewards: { call: () => ({ path: "/rewards" }) },
  createReward: {
    call: () => ({ path: "/rewards", body: reward() }),
    also: [() => prize("CODE"), () => prize("EXTERNAL")],
  },
  getReward: of("rewards", reward),
  updateReward: of("rewards", reward, {
    name: "New",
    description: null,
    bundle: bundle(),
    stock: 5,
    perPlayerLimit: null,
    version: 1,
  }),
  archiveReward: of("rewards", reward),

  listPlayerBadges: { call: async (side) => ({ path: await players(side, "badges") }) },
  awardBadge: {
    call: async (side) => {
      const made = await side.make("/badges", badge());
      return { path: await players(side, `badges/${made}`), body: { tier: 2, reason: "swept" } };
    },
    also: [() => ({})],
  },
  progressBadge: {
    call: async (side) => {
      const made = await side.make("/badges", badge());
      return { path: await players(side, `badges/${made}`), body: { add: 2.5, reason: "swept" } };
    },
    also: [() => ({ set: 3 })],
  },
  revokeBadge: {
    call: async (side) => {
      const [made, player] = [await side.make("/badges", badge()), await side.player()];
      await side.send("post", `/api/v1/players/${player}/badges/${made}`, {});
      return { path: `/players/${player}/badges/${made}`, body: { reason: "swept" } };
    },
  },
  listBadgeHolders: {
    call: async (side) => ({ path: `/badges/${await side.make("/badges", badge())}/holders` }),
  },

  purchaseReward: {
    call: async (side) => {
      const { made, playerId } = await forSale(side);
      return { path: `/rewards/${made}/purchase`, body: { playerId, quantity: 2 } };
    },
    foreign: foreignPlayer("purchase"),
  },
  grantReward: {
    call: async (side) => {
      const [made, playerId] = [await side.make("/rewards", reward()), await side.player()];
      return { path: `/rewards/${made}/grant`, body: { playerId, quantity: 2, delivery: "CLAIM" } };
    },
    foreign: foreignPlayer("grant"),
  },
  addRewardCodes: {
    call: async (side) => {
      const made = await side.make("/rewards", prize("CODE"));
      return { path: `/rewards/${made}/codes`, body: { codes: [unique("code"), unique("code")] } };
    },
  },
  getRewardStock: {
    call: async (side) => ({ path: `/rewards/${await side.make("/rewards", reward())}/stock` }),
  },
  listPlayerRewards: { call: async (side) => ({ path: await players(side, "rewards") }) },
  claimReward: {
    call: async (side) => ({ path: `${await granted(side, reward(), "CLAIM")}/claim`, body: {} }),
    foreign: async (own, other) => {
      const [player, theirs] = [await own.player(), await granted(other, reward(), "CLAIM")];
      return [{ path: `/players/${player}/rewards/${theirs.split("/").at(-1)}/claim`, body: {} }];
    },
  },
  fulfilReward: {
    call: async (side) => ({ path: `${await granted(side, prize("EXTERNAL"), "AUTO")}/fulfil`, body: {} }),
  },

  listInbox: { call: async (side) => ({ path: await players(side, "inbox") }) },
  sendMessage: {
    call: async (side) => ({
      path: await players(side, "inbox"),
      body: {
        type: "news",
        title: "News",
        body: "Text",
        data: { a: { b: 1 } },
        expiresAt: new Date(Date.now() + 86_400_000).toISOString(),
      },
    }),
  },
  readMessage: {
    call: async (side) => {
      const player = await side.player();
      const message = await side.make(`/players/${player}/inbox`, { title: "News" });
      return { path: `/players/${player}/inbox/${message}/read`, body: {} };
    },
  },

  startBulkGrant: {
    call: async (side) => ({
      path: "/grants/bulk",
      body: { playerIds: [await side.player()], bundle: bundle(), reason: "swept" },
    }),
  },
};
