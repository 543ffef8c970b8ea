import { definitionDocument } from "../rules/plan.ts";
import type { Side } from "../app/sides.ts";
import type { Known } from "./operations.ts";
import { post } from "./quests.ts";

const TIMES = { startsAt: "2026-01-01T00:00:00Z", endsAt: "2126-01-01T00:00:00Z" };

/** Every field that an adventure may have. */
const wholeAdventure = (unlock: object) => ({
  ...definitionDocument("adventure"),
  ...TIMES,
  description: "Text",
  imageUrl: "https://example.com/adventure.png",
  season: "2026",
  claimUntil: "2126-02-01T00:00:00Z",
  timezone: "Europe/Berlin",
  join: "MANUAL",
  audience: { segmentKeys: ["players"], match: "ANY" },
  items: [
    { questKey: "first", order: 1, chapter: "one", points: 5, unlock: { mode: "IMMEDIATE" } },
    { questKey: "second", order: 2, optional: true, points: 5, unlock },
  ],
  completion: { mode: "POINTS", value: 10 },
  tiers: [{ tier: 1, points: 5, free: { xp: 1 }, premium: { xp: 2 } }],
  premiumPrice: { currencyKey: "coins", amount: 10 },
  pointsFrom: [
    {
      metric: {
        eventTypes: ["swept"],
        filter: { all: [{ path: "a.b", op: "contains", value: "x" }] },
        aggregate: "sum",
        property: "v",
      },
      pointsPerUnit: 0.5,
    },
  ],
  claim: "MANUAL",
  rewards: { xp: 10 },
  sortOrder: 3,
  metadata: { theme: "winter" },
});

const act = (side: Side, adventure: string, move: string): Promise<void> =>
  post(side, `/adventures/${adventure}/${move}`);

const made = async (side: Side, more: object = {}): Promise<string> => {
  const adventure = { ...definitionDocument("adventure"), ...more };
  await side.make("/adventures", adventure);
  return adventure.key;
};

/** Publishes an adventure with a quest of its own, which its first item is. */
const published = async (side: Side, more: object = {}): Promise<{ key: string; quest: string }> => {
  const quest = { ...definitionDocument("quest"), start: { mode: "MANUAL" } };
  await side.make("/quests", quest);
  await post(side, `/quests/${quest.key}/publish`);
  const key = await made(side, { items: [{ questKey: quest.key, order: 1, points: 5 }], ...more });
  await act(side, key, "publish");
  return { key, quest: quest.key };
};

const joined = async (
  side: Side,
  more: object = {},
): Promise<{ player: string; path: string; quest: string }> => {
  const { key, quest } = await published(side, more);
  const player = await side.player();
  const path = `/players/${player}/adventures/${key}`;
  await post(side, `${path}/join`);
  return { player, path, quest };
};

const completed = async (side: Side, more: object): Promise<string> => {
  const { player, path, quest } = await joined(side, { claim: "MANUAL", ...more });
  await post(side, `/players/${player}/quests/${quest}/complete`, {});
  return path;
};

const AFTER = { mode: "AFTER_QUESTS", questKeys: ["first"] };

export const adventureOperations: Record<string, Known> = {
  listAdventures: { call: () => ({ path: "/adventures?status=ACTIVE&season=2026&questKey=first&search=a" }) },
  createAdventure: {
    call: () => ({ path: "/adventures", body: wholeAdventure(AFTER) }),
    also: [
      { mode: "AFTER_PREVIOUS" },
      { mode: "AT_DATE", at: "2026-06-01T00:00:00Z" },
      { mode: "DAY_OFFSET", days: 3 },
      { mode: "POINTS", points: 5 },
    ].map((unlock) => () => wholeAdventure(unlock)),
  },
  getAdventure: { call: async (side) => ({ path: `/adventures/${await made(side)}` }) },
  updateAdventure: {
    call: async (side) => ({
      path: `/adventures/${await made(side)}`,
      body: { name: "New", description: null, sortOrder: 2, draftVersion: 1 },
    }),
  },
  archiveAdventure: { call: async (side) => ({ path: `/adventures/${await made(side)}` }) },
  publishAdventure: {
    call: async (side) => ({ path: `/adventures/${(await published(side)).key}/publish` }),
  },
  pauseAdventure: { call: async (side) => ({ path: `/adventures/${(await published(side)).key}/pause` }) },
  resumeAdventure: {
    call: async (side) => {
      const { key } = await published(side);
      await act(side, key, "pause");
      return { path: `/adventures/${key}/resume` };
    },
  },
  endAdventure: { call: async (side) => ({ path: `/adventures/${(await published(side)).key}/end` }) },
  duplicateAdventure: {
    call: async (side) => ({
      path: `/adventures/${await made(side)}/duplicate`,
      body: { key: definitionDocument("adventure").key, name: "Copy" },
    }),
  },
  listAdventureVersions: {
    call: async (side) => ({ path: `/adventures/${(await published(side)).key}/versions` }),
  },
  rollbackAdventure: {
    call: async (side) => ({
      path: `/adventures/${(await published(side)).key}/rollback`,
      body: { version: 1 },
    }),
  },
  getAdventureStats: { call: async (side) => ({ path: `/adventures/${await made(side)}/stats` }) },
  listPlayerAdventures: {
    call: async (side) => ({ path: `/players/${await side.player()}/adventures?state=AVAILABLE` }),
  },
  getPlayerAdventure: { call: async (side) => ({ path: (await joined(side)).path }) },
  joinPlayerAdventure: {
    call: async (side) => {
      const { key } = await published(side);
      return { path: `/players/${await side.player()}/adventures/${key}/join` };
    },
  },
  claimPlayerAdventure: { call: async (side) => ({ path: `${await completed(side, {})}/claim` }) },
  claimPlayerAdventureTier: {
    call: async (side) => {
      const tiers = [{ tier: 1, points: 5, free: { xp: 1 } }];
      return { path: `${await completed(side, { tiers })}/tiers/1/claim`, body: { track: "FREE" } };
    },
  },
  givePlayerAdventurePremium: {
    call: async (side) => ({ path: `${(await joined(side)).path}/premium`, body: { grant: true } }),
  },
};
