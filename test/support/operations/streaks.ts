import { definitionDocument } from "../rules/definition-documents.ts";
import type { Known } from "./operations.ts";
import type { Side } from "../app/sides.ts";

const DAY_MS = 86_400_000;

const streaks = new WeakMap<Side, Promise<string>>();

/** One for each side, with freezes and repairs: a project may have 20. */
const aStreak = (side: Side): Promise<string> => {
  const known = streaks.get(side) ?? makeStreak(side);
  streaks.set(side, known);
  return known;
};

const makeStreak = async (side: Side): Promise<string> => {
  const made = definitionDocument("streak");
  const repairs = { freeze: { initial: 1, autoUse: false }, repairWindowHours: 720 };
  await side.make("/streaks", { ...made, ...repairs });
  return made.key;
};

const ofStreak = (step: string, body?: object): Known => ({
  call: async (side) => ({
    path: `/players/${await side.player()}/streaks/${await aStreak(side)}/${step}`,
    ...(body ? { body } : {}),
  }),
});

/** Every field that a streak of periods may have. */
const wholeStreak = () => ({
  ...definitionDocument("streak"),
  description: "Text",
  mode: "PERIODIC",
  period: "WEEK",
  qualify: {
    mode: "ANY",
    parts: [
      {
        metric: {
          eventTypes: ["swept"],
          filter: { all: [{ path: "a.b", op: "contains", value: "x" }] },
          aggregate: "sum",
          property: "v",
        },
        threshold: 2,
      },
    ],
  },
  timezonePolicy: "PROJECT",
  dayStartsAtMinutes: 240,
  graceSeconds: 3_600,
  freeze: { enabled: true, max: 3, initial: 1, autoEarnEvery: 7, autoUse: true },
  repairWindowHours: 48,
  milestones: [{ length: 7, every: 7, rewards: { xp: 5, addTags: ["keen"] } }],
});
const consecutive = () => ({
  ...definitionDocument("streak"),
  mode: "CONSECUTIVE",
  breakOn: { eventTypes: ["lost"], filter: { path: "a", op: "exists" } },
});

export const streakOperations: Record<string, Known> = {
  listStreaks: { call: () => ({ path: "/streaks" }) },
  createStreak: { call: () => ({ path: "/streaks", body: wholeStreak() }), also: [consecutive] },
  getStreak: { call: async (side) => ({ path: `/streaks/${await aStreak(side)}` }) },
  updateStreak: {
    call: async (side) => ({
      path: `/streaks/${await aStreak(side)}`,
      body: { name: "New", description: null, graceSeconds: 60 },
    }),
  },
  archiveStreak: {
    call: async (side) => ({
      path: `/streaks/${await side.active("/streaks", () => definitionDocument("streak"))}`,
    }),
  },
  listPlayerStreaks: {
    call: async (side) => {
      await aStreak(side);
      return { path: `/players/${await side.player()}/streaks` };
    },
  },
  getStreakHistory: ofStreak("history?from=2026-01-01&to=2026-01-31"),
  giveStreakFreezes: ofStreak("freezes", { amount: 1 }),
  repairStreak: {
    call: async (side) => {
      const streak = await aStreak(side);
      const timestamp = new Date(Date.now() - 5 * DAY_MS).toISOString();
      const player = await side.playerOf({ eventType: "done", timestamp });
      return { path: `/players/${player}/streaks/${streak}/repair`, body: { pay: false } };
    },
  },
  resetStreak: ofStreak("reset", {}),
};
