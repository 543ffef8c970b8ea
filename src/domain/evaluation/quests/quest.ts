import { z } from "zod";
import { partsOf } from "../causes.ts";
import { Cron, patternsOf } from "../language/patterns.ts";
import { conditionProblems, Group } from "../language/groups.ts";
import { Description, FieldKey, ImageUrl, Key, Name } from "../language/syntax.ts";
import { type Refuse, refuseAll, refuserOf, typeProblems } from "../language/trees.ts";
import { checkStep, Metadata, QuestStep, stepProblems } from "./step.ts";
import { causesOfBundle, RewardBundle } from "../rewards/bundle.ts";
import { Audience } from "../segments/audience.ts";
import { isEmptySpan, IsoTime } from "../../kernel/iso-time.ts";

/** Maximum quests of one project that are not archived. */
export const QUESTS_MAX = 500;
/** Maximum steps of one quest. */
export const STEPS_MAX = 50;
const TAGS_MAX = 20;
const LOCALES_MAX = 50;
const YEAR_SECONDS = 31_536_000;
const COMPLETIONS_MAX = 1_000_000;
const COST_MAX = 9_000_000_000;
const PARTICIPANTS_MAX = 1_000_000_000;

/** Conditions that need no event: of these, prerequisites consist. */
const PREREQUISITES: ReadonlySet<string> = new Set([
  "player_property",
  "streak",
  "progress_state",
  "leaderboard_rank",
  "segment",
  "time_window",
]);

const OTHER_TYPE = `must be one of ${[...PREREQUISITES].join(", ")}: prerequisites are about the player`;

const explain = (group: unknown, context: z.RefinementCtx): unknown => {
  // Of an unknown type those are named that may be there.
  const problems = conditionProblems(group).map(({ path, message }) =>
    path.at(-1) === "type" ? { path, message: OTHER_TYPE } : { path, message },
  );
  const isAllowed = (type: string): boolean => PREREQUISITES.has(type);
  const all = problems.length > 0 ? problems : typeProblems(group, isAllowed, OTHER_TYPE);
  return refuseAll(group, all, context);
};

const REPEAT_MODES = ["NONE", "DAILY", "WEEKLY", "MONTHLY", "CRON", "UNLIMITED"] as const;

const Repeat = z.strictObject({
  mode: z
    .enum(REPEAT_MODES)
    .default("NONE")
    .describe("How often a player may do it: once, once in each local period, or again and again"),
  cron: Cron.optional().describe("CRON only: when each cycle begins"),
  timezone: z.enum(["PLAYER", "PROJECT"]).default("PLAYER").describe("Whose time zone cycles follow"),
  cooldownSeconds: z.int().min(1).max(YEAR_SECONDS).optional().describe("After a completion"),
  maxCompletions: z.int().min(1).max(COMPLETIONS_MAX).optional().describe("Of one player, in total"),
});

const Start = z.strictObject({
  mode: z
    .enum(["AUTO", "MANUAL"])
    .default("AUTO")
    .describe(
      "AUTO: with the first event, state or submission that counts, which then counts already; without " +
        "steps of EVENT at once",
    ),
  cost: z
    .strictObject({ currencyKey: Key, amount: z.int().min(1).max(COST_MAX) })
    .optional()
    .describe("MANUAL only: what a start takes from the player, once in a cycle"),
});

const Texts = {
  name: Name.optional(),
  description: Description.optional(),
};
const Translation = z.strictObject({
  ...Texts,
  steps: z.record(FieldKey, z.strictObject(Texts)).optional().describe("By key of the step"),
});

export const questShape = z.strictObject({
  key: FieldKey,
  name: Name,
  description: Description.optional(),
  imageUrl: ImageUrl.optional(),
  category: z.string().min(1).max(64).optional(),
  tags: z.array(Key).max(TAGS_MAX).default([]),
  translations: z
    .record(
      z.string().regex(/^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$/, "must be a locale such as de or pt-BR"),
      Translation,
    )
    .refine((record) => Object.keys(record).length <= LOCALES_MAX, `has more than ${LOCALES_MAX} locales`)
    .optional()
    .describe("What players of a `locale` see; `pt` also serves `pt-BR` where that is not there"),
  audience: Audience.optional().describe("The players to whom it is offered"),
  prerequisites: z
    .preprocess(explain, Group)
    .optional()
    .describe("Conditions on the player without which the quest is LOCKED"),
  start: Start.default({ mode: "AUTO" }),
  stepMode: z
    .enum(["SEQUENTIAL", "PARALLEL", "ANY"])
    .default("SEQUENTIAL")
    .describe("One after another; all at once, as far as `dependsOn` permits; or `requiredSteps` of them"),
  requiredSteps: z.int().min(1).max(STEPS_MAX).optional().describe("ANY only: how many steps complete it"),
  steps: z.array(QuestStep).min(1).max(STEPS_MAX),
  repeat: Repeat.default({ mode: "NONE", timezone: "PLAYER" }),
  timeLimitSeconds: z.int().min(60).max(YEAR_SECONDS).optional().describe("From the start, for each player"),
  availableFrom: IsoTime.optional(),
  availableUntil: IsoTime.optional(),
  finishAfterEnd: z
    .boolean()
    .optional()
    .describe("Whether a player's own time limit outlasts `availableUntil`; default: if it does not repeat"),
  claim: z.enum(["AUTO", "MANUAL"]).default("AUTO"),
  claimWindowSeconds: z
    .int()
    .min(60)
    .max(YEAR_SECONDS)
    .optional()
    .describe("MANUAL only: rewards are lost after it"),
  rewards: RewardBundle.default({}),
  maxParticipants: z
    .int()
    .min(1)
    .max(PARTICIPANTS_MAX)
    .optional()
    .describe("How many players may start it: each has one place, for all cycles"),
  onVersionChange: z
    .enum(["KEEP", "RESTART", "CARRY_OVER"])
    .default("KEEP")
    .describe("What becomes of players in progress when this version is published"),
  sortOrder: z.int().min(-1_000_000).max(1_000_000).default(0),
  hiddenUntilAvailable: z.boolean().default(false).describe("Whether it is left out of lists while LOCKED"),
  metadata: Metadata.optional(),
});

type QuestShape = z.output<typeof questShape>;
const onlyFor = (field: string, value: string, is: string): string =>
  `is only for a ${field} of ${value}, and this is ${is}`;

const checkRepeat = ({ mode, cron, cooldownSeconds }: QuestShape["repeat"], refuse: Refuse): void => {
  if ((mode === "CRON") !== (cron !== undefined))
    refuse(
      ["repeat", "cron"],
      cron === undefined ? "is needed for a mode of CRON" : onlyFor("repeat.mode", "CRON", mode),
    );
  if (mode === "NONE" && cooldownSeconds !== undefined)
    refuse(["repeat", "cooldownSeconds"], "is only for quests that repeat, and repeat.mode is NONE");
};

const checkTimes = (quest: QuestShape, refuse: Refuse): void => {
  if (quest.start.cost && quest.start.mode === "AUTO")
    refuse(["start", "cost"], onlyFor("start.mode", "MANUAL", "AUTO"));
  checkRepeat(quest.repeat, refuse);
  if (quest.claim === "AUTO" && quest.claimWindowSeconds !== undefined)
    refuse(["claimWindowSeconds"], onlyFor("claim", "MANUAL", "AUTO"));
  if (isEmptySpan(quest.availableFrom, quest.availableUntil))
    refuse(["availableUntil"], "must be after availableFrom");
  if (quest.finishAfterEnd !== undefined && quest.timeLimitSeconds === undefined)
    refuse(["finishAfterEnd"], "is only for quests with timeLimitSeconds");
};

const checkTranslations = ({ steps, translations = {} }: QuestShape, refuse: Refuse): void => {
  const keys = new Set(steps.map(({ key }) => key));
  for (const [locale, { steps: translated = {} }] of Object.entries(translations))
    for (const key of Object.keys(translated))
      if (!keys.has(key)) refuse(["translations", locale, "steps", key], `there is no step ${key}`);
};

/** Zod check of constraints between fields, with those that decide whether the quest can end. */
const checkQuest = (quest: QuestShape, context: z.RefinementCtx): void => {
  const refuse = refuserOf(context);
  quest.steps.forEach((step, i) =>
    checkStep(step, (path, message) => refuse(["steps", i, ...path], message)),
  );
  for (const { path, message } of stepProblems(quest)) refuse(path, message);
  checkTimes(quest, refuse);
  checkTranslations(quest, refuse);
  checkUnlimited(quest, refuse);
};

const isOfQuests = (type: string): boolean => type.startsWith("quest.") || type === "quest.*";

/** Returns the types of the events that what a quest gives causes. */
const typesCausedBy = ({ rewards, steps }: QuestShape): string[] =>
  [rewards, ...steps.flatMap((step) => step.rewards ?? [])]
    .flatMap(causesOfBundle)
    .map((cause) => partsOf(cause).type);

/** Whether a pattern of events includes one of several types. */
const includesOne = (pattern: string, types: readonly string[]): boolean =>
  types.some((type) => patternsOf(type).includes(pattern));

/** Whether something that the quest itself does not cause must happen before a step is done again. */
const needsOthers = (step: QuestStep, caused: readonly string[]): boolean => {
  if (step.kind !== "EVENT") return step.kind !== "STATE";
  return step.countFrom !== "LIFETIME" && !step.metric.eventTypes.some((one) => includesOne(one, caused));
};

/** A quest that repeats without end must be driven by events, and not by those that it causes. */
const checkUnlimited = (quest: QuestShape, refuse: Refuse): void => {
  const { repeat, stepMode, steps } = quest;
  if (repeat.mode !== "UNLIMITED") return;
  steps.forEach((step, i) => {
    if (step.kind === "EVENT" && step.metric.eventTypes.some(isOfQuests))
      refuse(
        ["steps", i, "metric", "eventTypes"],
        "an UNLIMITED quest cannot count events of quests: it would drive itself",
      );
  });
  const required = steps.filter(({ optional }) => !optional);
  const caused = typesCausedBy(quest);
  const isOther = (step: QuestStep): boolean => needsOthers(step, caused);
  const isDriven = stepMode === "ANY" ? required.every(isOther) : required.some(isOther);
  if (!isDriven)
    refuse(
      ["repeat", "mode"],
      "UNLIMITED needs a step that players do, or that counts events from the start of the quest or step " +
        "which its rewards do not cause",
    );
};

/** A quest of a project. */
export const Quest = questShape.superRefine(checkQuest).meta({
  example: {
    key: "first-week",
    name: "Your first week",
    start: { mode: "AUTO" },
    stepMode: "SEQUENTIAL",
    steps: [
      {
        key: "lessons",
        name: "Finish three lessons",
        kind: "EVENT",
        metric: { eventTypes: ["lesson.completed"], aggregate: "count" },
        target: 3,
        rewards: { xp: 10 },
      },
      {
        key: "level",
        name: "Reach level 2",
        kind: "STATE",
        condition: { all: [{ type: "player_property", field: "level", op: "gte", value: 2 }] },
      },
    ],
    repeat: { mode: "NONE" },
    claim: "AUTO",
    rewards: { xp: 100 },
  },
});
export type Quest = z.output<typeof Quest>;

type Translations = NonNullable<Quest["translations"]>;
type QuestTranslation = Translations[string];

const byLocale = new WeakMap<Translations, ReadonlyMap<string, QuestTranslation>>();

const localesOf = (translations: Translations): ReadonlyMap<string, QuestTranslation> => {
  const known = byLocale.get(translations);
  if (known) return known;
  const locales = new Map(Object.entries(translations).map(([key, one]) => [key.toLowerCase(), one]));
  byLocale.set(translations, locales);
  return locales;
};

/**
 * Returns the translation of a quest for a locale, or else for a more general one: `pt` for `pt-BR`.
 * @returns undefined where there is none, so that the quest's own texts apply
 */
const translationOf = ({ translations }: Quest, locale: string | null): QuestTranslation | undefined => {
  if (!translations || locale === null) return undefined;
  const locales = localesOf(translations);
  const parts = locale.toLowerCase().split("-");
  for (let n = parts.length; n > 0; n--) {
    const found = locales.get(parts.slice(0, n).join("-"));
    if (found) return found;
  }
  return undefined;
};

/** Returns the name of a quest for a player of a locale. */
export const questName = (quest: Quest, locale: string | null): string =>
  translationOf(quest, locale)?.name ?? quest.name;

/** Returns what the client of a player of a locale shows of a quest besides progress. */
export const questTexts = (quest: Quest, locale: string | null) => {
  const { description, imageUrl, category, start, claim, rewards } = quest;
  return {
    name: questName(quest, locale),
    description: translationOf(quest, locale)?.description ?? description ?? null,
    imageUrl: imageUrl ?? null,
    category: category ?? null,
    start,
    claim,
    rewards,
  };
};

/** As `questTexts`, of a step. */
export const stepTexts = (quest: Quest, step: QuestStep, locale: string | null) => {
  const own = translationOf(quest, locale)?.steps?.[step.key];
  return {
    name: own?.name ?? step.name,
    description: own?.description ?? step.description ?? null,
    optional: step.optional,
    rewards: step.rewards ?? null,
    ...(step.kind === "MANUAL" ? { evidence: step.evidence } : {}),
  };
};
