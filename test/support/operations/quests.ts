import { createHash, randomUUID } from "node:crypto";
import { definitionDocument } from "../rules/plan.ts";
import type { Side } from "../app/sides.ts";
import type { Known } from "./operations.ts";
import { must } from "../http/client.ts";

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

const step = (eventType: string) => ({
  key: "act",
  name: "Act",
  kind: "EVENT",
  metric: { eventTypes: [eventType], aggregate: "count" },
  target: 1,
});

/** Every field that a quest may have. */
const wholeQuest = () => ({
  ...definitionDocument("quest"),
  description: "Text",
  imageUrl: "https://example.com/quest.png",
  category: "start",
  tags: ["new"],
  translations: { de: { name: "Eine Aufgabe", description: "Text" } },
  audience: { segmentKeys: ["players"], match: "ANY" },
  prerequisites: { all: [{ type: "player_property", field: "level", op: "gte", value: 1 }] },
  start: { mode: "MANUAL" },
  stepMode: "PARALLEL",
  steps: [
    {
      ...step("swept"),
      description: "Text",
      metric: {
        eventTypes: ["swept"],
        filter: { all: [{ path: "a.b", op: "contains", value: "x" }] },
        aggregate: "sum",
        property: "v",
      },
      target: 2,
      countFrom: "LIFETIME",
      rewards: { xp: 5 },
      metadata: { icon: "star" },
    },
    {
      key: "state",
      name: "State",
      kind: "STATE",
      condition: { all: [{ type: "player_property", field: "xp", op: "gte", value: 5 }] },
      optional: true,
      dependsOn: ["act"],
    },
  ],
  repeat: { mode: "DAILY", timezone: "PROJECT", cooldownSeconds: 60, maxCompletions: 3 },
  timeLimitSeconds: 3_600,
  availableFrom: "2026-01-01T00:00:00Z",
  availableUntil: "2126-01-01T00:00:00Z",
  finishAfterEnd: true,
  claim: "MANUAL",
  claimWindowSeconds: 3_600,
  rewards: { xp: 10 },
  onVersionChange: "CARRY_OVER",
  sortOrder: 3,
  hiddenUntilAvailable: true,
  metadata: { theme: "winter" },
});
const streakQuest = () => ({
  ...definitionDocument("quest"),
  stepMode: "ANY",
  requiredSteps: 1,
  steps: [
    {
      ...step("swept"),
      metric: { eventTypes: ["swept"], aggregate: "streak", period: "DAY", timezone: "PLAYER" },
      target: 3,
    },
  ],
  repeat: { mode: "CRON", cron: "0 6 * * *" },
});

/** Steps of the kinds that players do themselves. */
const OWN_STEPS = {
  manual: {
    key: "act",
    name: "Act",
    kind: "MANUAL",
    target: 2,
    requiresApproval: true,
    evidence: "ANY",
  },
  code: { key: "act", name: "Act", kind: "CODE", codeHashes: [sha256("open sesame")], maxAttempts: 5 },
  pool: { key: "act", name: "Act", kind: "CODE", perPlayerCodes: true },
  quiz: {
    key: "act",
    name: "Act",
    kind: "QUIZ",
    questions: [{ key: "sum", prompt: "One and one?", options: ["one", "two"], correct: [1] }],
    passScore: 100,
    maxAttempts: 5,
  },
};

/** Posts what must answer 200. */
export const post = async (side: Side, path: string, given: object = {}): Promise<void> => {
  must(await side.send("post", `/api/v1${path}`, given), 200);
};

const act = (side: Side, quest: string, move: string): Promise<void> =>
  post(side, `/quests/${quest}/${move}`);

const made = async (side: Side, more: object = {}): Promise<string> => {
  const quest = { ...definitionDocument("quest"), start: { mode: "MANUAL" }, ...more };
  await side.make("/quests", quest);
  return quest.key;
};

const published = async (side: Side, more: object = {}): Promise<string> => {
  const key = await made(side, more);
  await act(side, key, "publish");
  return key;
};

const ofPlayer = async (side: Side, more: object = {}): Promise<string> =>
  `/players/${await side.player()}/quests/${await published(side, more)}`;

/** A quest begun for its player: AUTO would begin it for whomever a sweep comes to meanwhile. */
const begun = async (side: Side, onlyStep: object): Promise<string> => {
  const path = await ofPlayer(side, { steps: [onlyStep] });
  await post(side, `${path}/start`);
  return path;
};

/** A step that counts what players did before, too. */
const EVER = {
  key: "act",
  name: "Act",
  kind: "EVENT",
  metric: { eventTypes: ["acted"], aggregate: "count" },
  target: 3,
  countFrom: "LIFETIME",
};

export const questOperations: Record<string, Known> = {
  listQuests: {
    call: () => ({ path: "/quests?status=ACTIVE&category=start&tag=new&adventureKey=a&search=a" }),
  },
  createQuest: {
    call: () => ({ path: "/quests", body: wholeQuest() }),
    also: [
      streakQuest,
      ...Object.values(OWN_STEPS).map((one) => () => ({ ...definitionDocument("quest"), steps: [one] })),
    ],
  },
  getQuest: { call: async (side) => ({ path: `/quests/${await made(side)}` }) },
  updateQuest: {
    call: async (side) => ({
      path: `/quests/${await made(side)}`,
      body: { name: "New", description: null, sortOrder: 2, draftVersion: 1 },
    }),
  },
  archiveQuest: { call: async (side) => ({ path: `/quests/${await made(side)}` }) },
  publishQuest: {
    call: async (side) => ({
      path: `/quests/${await made(side, { steps: [EVER] })}/publish`,
      body: { backfill: true },
    }),
  },
  pauseQuest: { call: async (side) => ({ path: `/quests/${await published(side)}/pause` }) },
  resumeQuest: {
    call: async (side) => {
      const key = await published(side);
      await act(side, key, "pause");
      return { path: `/quests/${key}/resume` };
    },
  },
  endQuest: { call: async (side) => ({ path: `/quests/${await published(side)}/end` }) },
  duplicateQuest: {
    call: async (side) => ({
      path: `/quests/${await made(side)}/duplicate`,
      body: { key: definitionDocument("quest").key, name: "Copy" },
    }),
  },
  listQuestVersions: { call: async (side) => ({ path: `/quests/${await published(side)}/versions` }) },
  rollbackQuest: {
    call: async (side) => ({ path: `/quests/${await published(side)}/rollback`, body: { version: 1 } }),
  },
  getQuestStats: { call: async (side) => ({ path: `/quests/${await made(side)}/stats?cycleKey=once` }) },
  listQuestPlayers: {
    call: async (side) => ({ path: `/quests/${await made(side)}/players?state=CLAIMED&cycleKey=once` }),
  },
  listPlayerQuests: {
    call: async (side) => ({ path: `/players/${await side.player()}/quests?state=AVAILABLE&category=start` }),
  },
  getPlayerQuest: { call: async (side) => ({ path: `${await ofPlayer(side)}?cycle=current` }) },
  startPlayerQuest: { call: async (side) => ({ path: `${await ofPlayer(side)}/start` }) },
  abandonPlayerQuest: {
    call: async (side) => {
      const path = await ofPlayer(side);
      await post(side, `${path}/start`);
      return { path: `${path}/abandon` };
    },
  },
  progressPlayerQuestStep: {
    call: async (side) => {
      const path = await ofPlayer(side);
      await post(side, `${path}/start`);
      return { path: `${path}/steps/act/progress`, body: { amount: 1 } };
    },
    also: [() => ({ set: 0.5 })],
  },
  submitPlayerQuestStep: {
    call: async (side) => ({
      path: `${await begun(side, OWN_STEPS.manual)}/steps/act/submit`,
      body: { evidence: "Text" },
    }),
    also: [() => ({ code: "open sesame" }), () => ({ answers: { sum: [1] } })],
  },
  reviewPlayerQuestStep: {
    call: async (side) => {
      const path = await begun(side, OWN_STEPS.manual);
      await post(side, `${path}/steps/act/submit`, { evidence: "Text" });
      return { path: `${path}/steps/act/review`, body: { decision: "REJECT", note: "Text" } };
    },
  },
  listQuestReviews: { call: () => ({ path: "/quest-reviews?status=PENDING&questId=a&stepKey=a" }) },
  addQuestCodes: {
    call: async (side) => ({
      path: `/quests/${await made(side, { steps: [OWN_STEPS.pool] })}/steps/act/codes`,
      body: { codes: [randomUUID()] },
    }),
  },
  resetPlayerQuest: {
    call: async (side) => {
      const path = await ofPlayer(side);
      await post(side, `${path}/start`);
      return { path: `${path}/reset`, body: { reason: "Text" } };
    },
  },
  completePlayerQuest: { call: async (side) => ({ path: `${await ofPlayer(side)}/complete`, body: {} }) },
  failPlayerQuest: {
    call: async (side) => {
      const path = await ofPlayer(side);
      await post(side, `${path}/start`);
      return { path: `${path}/fail`, body: { reason: "Text" } };
    },
  },
  claimPlayerQuest: {
    call: async (side) => {
      const steps = [
        {
          key: "is",
          name: "Is there",
          kind: "STATE",
          condition: { all: [{ type: "player_property", field: "xp", op: "gte", value: 0 }] },
        },
      ];
      const path = await ofPlayer(side, { claim: "MANUAL", steps });
      await post(side, `${path}/start`);
      return { path: `${path}/claim`, body: { cycle: "once" } };
    },
  },
};
