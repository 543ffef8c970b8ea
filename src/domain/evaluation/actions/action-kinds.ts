import { z } from "zod";
import {
  type Act,
  actionFields,
  type ActionKind,
  actionKind,
  type ActionRecord,
  actionRecordOf,
  causesOfChange,
  compileSending,
  compileValues,
  type Firing,
  isPassable,
  NamedValues,
  OnInsufficient,
  PASSED_ON_MAX_BYTES,
  type Sending,
} from "./action.ts";
import { updatePlayer } from "./update-player.ts";
import { about, CAUSES, SCORE, USES_BOOSTS } from "../causes.ts";
import { compileExpression, compileRounded, Expression, Rounding } from "../language/expressions.ts";
import { assetMentions, Key, mentionsAt, smallRecord } from "../language/syntax.ts";
import { type Refuse, refuserOf } from "../language/trees.ts";
import type { QuestOrder, Turn } from "../turn.ts";
import { TIERS_MAX } from "../../kernel/limits.ts";
import { awardBadge, type BadgeProblem, progressBadge, revokeBadge } from "../badges/award.ts";
import { isMeta } from "../boards/definition.ts";
import { submitScore as submit } from "../boards/submit.ts";
import { grantReward as giveReward } from "../rewards/shared-keys.ts";
import { RuleFailure } from "../running/outcome.ts";
import { isReservedType } from "../../kernel/events/event-types.ts";
import { emitCustom } from "../emit.ts";
import { boostFields, BoostStacking } from "../boosts/campaign-boost.ts";
import { startBoost } from "../boosts/boosts.ts";
import { adjustLives as changeLives, UNLIMITED_SECONDS_MAX } from "../lives/lives.ts";
import { capsOf } from "../caps/caps.ts";
import { adjustCurrency as changeCurrency } from "../currencies/adjust.ts";
import { grantXp as giveXp } from "../xp/xp.ts";

/** Gives XP, or takes it away by a negative amount: never below 0. */
const grantXp = actionKind({
  type: "grant_xp",
  summary: "Gives or takes XP",
  schema: z.strictObject({
    type: z.literal("grant_xp"),
    ...actionFields,
    amount: Expression,
    rounding: Rounding,
    boostable: z.boolean().default(true),
  }),
  causes: ({ amount }) => [...causesOfChange(amount, CAUSES.xp, CAUSES.xpLoss), ...USES_BOOSTS],
  compile: ({ amount: expression, rounding, boostable }) => {
    const amountOf = compileRounded(expression, rounding);
    return (turn) => {
      const amount = amountOf(turn);
      return amount === 0 ? undefined : { amount, boostable };
    };
  },
  perform: (turn, { amount, boostable }, { key, cause, reason, caps }) =>
    void giveXp(turn, { amount, boostable, cause, key, reason, caps: capsOf(turn, caps) }),
});

/** Credits or debits a currency. `onInsufficient` decides when the balance, or the room, is insufficient. */
const adjustCurrency = actionKind({
  type: "adjust_currency",
  summary: "Adds or removes a currency",
  schema: z.strictObject({
    type: z.literal("adjust_currency"),
    ...actionFields,
    currencyKey: Key,
    amount: Expression,
    rounding: Rounding,
    boostable: z.boolean().default(false),
    onInsufficient: OnInsufficient.default("FAIL_RULE"),
  }),
  mentions: ({ currencyKey }) => mentionsAt("currencyKey", "currency", currencyKey),
  causes: ({ amount, currencyKey }) => [
    ...about(causesOfChange(amount, CAUSES.gain, CAUSES.loss), currencyKey),
    ...USES_BOOSTS,
  ],
  canFail: ({ onInsufficient }) => onInsufficient === "FAIL_RULE",
  compile: ({ currencyKey, amount: expression, rounding, boostable, onInsufficient }) => {
    const amountOf = compileRounded(expression, rounding);
    return (turn) => {
      const amount = amountOf(turn);
      return amount === 0 ? undefined : { currencyKey, amount, boostable, onInsufficient };
    };
  },
  perform: (turn, { currencyKey, amount, boostable, onInsufficient }, record) => {
    const { key, cause, reason, actionId, caps } = record;
    const { problem } = changeCurrency(turn, {
      currencyKey,
      amount,
      boostable,
      onInsufficient: onInsufficient === "CLAMP" ? "CLAMP" : "REFUSE",
      cause,
      key,
      reason,
      caps: capsOf(turn, caps),
    });
    if (problem === undefined) return;
    if (onInsufficient === "FAIL_RULE") throw new RuleFailure(actionId, `${problem} of ${currencyKey}`);
    turn.warn(`adjust_currency ${actionId}: ${problem} of ${currencyKey}: nothing is changed`);
  },
});

/** Adds or removes lives, refills them, or makes them unlimited for a time. */
const adjustLives = actionKind({
  type: "adjust_lives",
  summary: "Adds, removes or refills lives, or makes them unlimited for a time",
  schema: z
    .strictObject({
      type: z.literal("adjust_lives"),
      ...actionFields,
      amount: Expression.optional(),
      refill: z.literal("FULL").optional(),
      unlimitedSeconds: z.int().min(1).max(UNLIMITED_SECONDS_MAX).optional(),
      onInsufficient: OnInsufficient.default("CLAMP"),
    })
    .refine(
      ({ amount, refill, unlimitedSeconds }) =>
        [amount, refill, unlimitedSeconds].filter((given) => given !== undefined).length === 1,
      { path: ["amount"], message: "give exactly one of amount, refill and unlimitedSeconds" },
    ),
  causes: () => CAUSES.lives,
  canFail: ({ onInsufficient }) => onInsufficient === "FAIL_RULE",
  compile: ({ amount: expression, refill, unlimitedSeconds, onInsufficient }) => {
    const amountOf = expression && compileExpression(expression);
    return (turn) => {
      const amount = amountOf && Math.floor(amountOf(turn));
      return amount === 0 ? undefined : { amount, refill, unlimitedSeconds, onInsufficient };
    };
  },
  perform: (turn, { onInsufficient, ...change }, { key, cause, reason, actionId }) => {
    const whenShort = onInsufficient === "CLAMP" ? "CLAMP" : "REFUSE";
    const { problem } = changeLives(turn, { ...change, onInsufficient: whenShort, cause, key, reason });
    if (problem === undefined) return;
    if (onInsufficient === "FAIL_RULE") throw new RuleFailure(actionId, problem);
    turn.warn(`adjust_lives ${actionId}: ${problem}: nothing is changed`);
  },
});

/** Starts a boost that multiplies later gains of the player. */
export const applyBoost = actionKind({
  type: "apply_boost",
  summary: "Multiplies later grants",
  schema: z.strictObject({
    type: z.literal("apply_boost"),
    ...actionFields,
    ...boostFields,
    stacking: BoostStacking.default("MAX"),
  }),
  mentions: ({ applies }) => assetMentions("applies", applies),
  causes: ({ boostKey }) => about(CAUSES.boost, boostKey),
  compile:
    ({ boostKey, applies, factor, durationSeconds, uses, stacking }) =>
    () => ({ boostKey, applies, factor, durationSeconds, uses, stacking }),
  perform: (turn, resolved, { cause }) => startBoost(turn, { ...resolved, cause }),
});

const PROPERTIES_MAX = 50;

/** Destinations of an emitted event: other rules, webhooks, the live stream, the player's inbox. */
export const CHANNELS = ["rules", "webhook", "realtime", "inbox"] as const;

const TOO_LARGE = `the properties are larger than ${PASSED_ON_MAX_BYTES / 1_024} KiB`;

/** Emits an event of the integrator's own. Oversized properties fail the rule. */
const emitEvent = actionKind({
  type: "emit_event",
  summary: "Emits an event of your own, for other rules, webhooks, the live stream or the inbox",
  schema: z.strictObject({
    type: z.literal("emit_event"),
    ...actionFields,
    eventType: z
      .string()
      .regex(/^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$/, "must be an event type such as order.paid")
      .refine((type) => !isReservedType(type), "is reserved for the service's own events"),
    properties: smallRecord(NamedValues, PROPERTIES_MAX, `more than ${PROPERTIES_MAX} properties`).default(
      {},
    ),
    channels: z.array(z.enum(CHANNELS)).min(1).max(CHANNELS.length),
  }),
  causes: ({ eventType, channels }) => (channels.includes("rules") ? [eventType] : []),
  canFail: () => true,
  compile: ({ eventType, properties, channels }) => {
    const valuesOf = compileValues(properties);
    return (turn) => ({ eventType, properties: valuesOf(turn), channels });
  },
  perform: (turn, resolved, { cause, actionId }) => {
    if (!isPassable(resolved.properties)) throw new RuleFailure(actionId, TOO_LARGE);
    emitCustom(turn, { ...resolved, cause });
  },
});

const YEAR_SECONDS = 31_536_000;

/**
 * Grants a reward of the catalogue. A reward that cannot be granted fails the rule, so that a player never
 * pays for nothing.
 */
const grantReward = actionKind({
  type: "grant_reward",
  summary: "Grants a reward of the catalogue",
  schema: z.strictObject({
    type: z.literal("grant_reward"),
    ...actionFields,
    rewardKey: Key,
    quantity: z.int().min(1).max(100).default(1),
    delivery: z.enum(["AUTO", "CLAIM"]).default("AUTO"),
    expiresInSeconds: z.int().min(60).max(YEAR_SECONDS).optional(),
  }),
  mentions: ({ rewardKey }) => mentionsAt("rewardKey", "reward", rewardKey),
  causes: ({ rewardKey }) => about(CAUSES.reward, rewardKey),
  canFail: () => true,
  compile:
    ({ rewardKey, quantity, delivery, expiresInSeconds }) =>
    () => ({ rewardKey, quantity, delivery, expiresInSeconds }),
  perform: (turn, resolved, { key, cause, actionId }) => {
    const given = giveReward(turn, { ...resolved, key, cause });
    if ("problem" in given) throw new RuleFailure(actionId, `${given.problem} of ${resolved.rewardKey}`);
  },
});

/** Maximum fields of a score's meta. */
const META_MAX = 20;

/** Submits a score to a CUSTOM leaderboard. An inactive board is skipped with a warning. */
const submitScore = actionKind({
  type: "submit_score",
  summary: "Submits a score to a CUSTOM leaderboard",
  schema: z.strictObject({
    type: z.literal("submit_score"),
    ...actionFields,
    leaderboardKey: Key,
    score: Expression,
    meta: NamedValues.refine(
      (given) => Object.keys(given).length <= META_MAX,
      `more than ${META_MAX} fields`,
    ).optional(),
  }),
  mentions: ({ leaderboardKey }) => mentionsAt("leaderboardKey", "leaderboard", leaderboardKey),
  causes: () => [SCORE, ...USES_BOOSTS],
  demands: ({ leaderboardKey }, find) => {
    const metric = find("leaderboard", leaderboardKey)?.["metric"] as { source: string } | undefined;
    if (!metric || metric.source === "CUSTOM") return [];
    return [["leaderboardKey", `${leaderboardKey}: a leaderboard of ${metric.source} takes no scores`]];
  },
  compile: ({ leaderboardKey, score: expression, meta }) => {
    const scoreOf = compileExpression(expression);
    const metaOf = meta && compileValues(meta);
    return (turn) => ({ leaderboardKey, score: scoreOf(turn), meta: metaOf?.(turn) });
  },
  perform: (turn, { leaderboardKey, score, meta }) => {
    const board = turn.project.boardsByKey.get(leaderboardKey);
    if (!board) return turn.warn(`leaderboard ${leaderboardKey} is not active: no score is submitted`);
    const fits = meta === undefined || isMeta(meta);
    if (!fits) turn.warn(`leaderboard ${leaderboardKey}: the meta is too large and left out`);
    const isRecorded = !turn.event.type.startsWith("system.");
    submit(turn, board, score, { isBoostable: true, isRecorded, meta: fits ? meta : undefined });
  },
});

const badgeUpdateSchema = z
  .strictObject({
    type: z.literal("update_badge"),
    ...actionFields,
    badgeKey: Key,
    operation: z.enum(["AWARD", "PROGRESS", "REVOKE"]),
    tier: z.int().min(1).max(TIERS_MAX).optional(),
    amount: Expression.optional(),
  })
  .superRefine(({ operation, tier, amount }, context) => {
    const refuse = refuserOf(context);
    if (operation === "PROGRESS" && amount === undefined) refuse(["amount"], "is required for PROGRESS");
    if (operation !== "PROGRESS" && amount !== undefined) refuse(["amount"], "is for PROGRESS only");
    if (operation !== "AWARD" && tier !== undefined) refuse(["tier"], "is for AWARD only");
  });

type BadgeUpdate = Pick<z.output<typeof badgeUpdateSchema>, "badgeKey" | "operation" | "tier"> & {
  amount?: number;
};

const change = (turn: Turn, { badgeKey, operation, tier, amount }: BadgeUpdate, record: ActionRecord) => {
  const { key, cause } = record;
  if (operation === "REVOKE") return revokeBadge(turn, { badgeKey, cause });
  if (operation === "PROGRESS") return progressBadge(turn, { badgeKey, amount: amount!, cause, key });
  return awardBadge(turn, { badgeKey, tier, cause, key });
};

/** Awards a tier of a badge (never lowers it), adds progress, or revokes the badge. */
const updateBadge = actionKind<typeof badgeUpdateSchema, BadgeUpdate>({
  type: "update_badge",
  summary: "Awards a badge, adds progress to it or revokes it",
  schema: badgeUpdateSchema,
  mentions: ({ badgeKey }) => mentionsAt("badgeKey", "badge", badgeKey),
  causes: ({ badgeKey, operation }) =>
    about(operation === "REVOKE" ? CAUSES.badgeLoss : CAUSES.badge, badgeKey),
  demands: ({ badgeKey, tier }, find) => {
    const tiers = find("badge", badgeKey)?.["tiers"];
    if (tier === undefined || !Array.isArray(tiers) || tier <= tiers.length) return [];
    return [["tier", `the badge ${badgeKey} has ${tiers.length} tiers`]];
  },
  compile: ({ badgeKey, operation, tier, amount: expression }) => {
    if (operation !== "PROGRESS") return () => ({ badgeKey, operation, tier });
    const amountOf = compileExpression(expression!);
    return (turn) => {
      const amount = amountOf(turn);
      return amount === 0 ? undefined : { badgeKey, operation, amount };
    };
  },
  perform: (turn, resolved, record) => {
    const problem: BadgeProblem | undefined = change(turn, resolved, record);
    if (problem !== undefined) turn.warn(`update_badge ${record.actionId}: ${resolved.badgeKey}: ${problem}`);
  },
});

const OPERATIONS = ["START", "ADVANCE", "COMPLETE", "FAIL", "RESET"] as const;

const refuseOfAdventure = (
  { operation, stepKey }: { operation: string; stepKey: string | undefined },
  refuse: Refuse,
): void => {
  if (operation === "FAIL") refuse(["operation"], "FAIL is for quests: adventures do not fail");
  if (stepKey !== undefined) refuse(["stepKey"], "is for quests: adventures have no steps");
};

const questUpdateSchema = z
  .strictObject({
    type: z.literal("update_quest"),
    ...actionFields,
    entity: z.enum(["quest", "adventure"], { error: "must be quest or adventure" }).default("quest"),
    key: Key,
    operation: z
      .enum(OPERATIONS)
      .describe("Of an adventure START makes the player join, and ADVANCE adds points; FAIL is for quests"),
    stepKey: Key.optional(),
    amount: Expression.optional(),
  })
  .superRefine(({ entity, operation, stepKey, amount }, context) => {
    const refuse = refuserOf(context);
    if (entity === "adventure") refuseOfAdventure({ operation, stepKey }, refuse);
    else if (operation === "ADVANCE" && stepKey === undefined) refuse(["stepKey"], "is required for ADVANCE");
    if (operation !== "ADVANCE" && stepKey !== undefined) refuse(["stepKey"], "is for ADVANCE only");
    if (operation !== "ADVANCE" && amount !== undefined) refuse(["amount"], "is for ADVANCE only");
  });

/**
 * Starts a quest or adventure, advances a step of it or adds points, completes, fails or resets it; what is
 * refused is a warning.
 */
const updateQuest = actionKind<typeof questUpdateSchema, QuestOrder>({
  type: "update_quest",
  summary: "Starts, advances, completes, fails or resets a quest or an adventure",
  schema: questUpdateSchema,
  mentions: ({ entity, key }) => mentionsAt("key", entity, key),
  causes: ({ entity, key }) => about(CAUSES[entity], key),
  demands: ({ entity, key, stepKey }, find) => {
    const steps = entity === "quest" ? find("quest", key)?.["steps"] : undefined;
    if (stepKey === undefined || !Array.isArray(steps)) return [];
    const isThere = (steps as { key: string }[]).some((step) => step.key === stepKey);
    return isThere ? [] : [["stepKey", `the quest ${key} has no step ${stepKey}`]];
  },
  compile: ({ entity, key, operation, stepKey, amount: expression }) => {
    if (operation !== "ADVANCE") return () => ({ entity, key, operation });
    const amountOf = expression === undefined ? () => 1 : compileExpression(expression);
    return (turn) => {
      const amount = amountOf(turn);
      return amount === 0 ? undefined : { entity, key, operation, stepKey, amount };
    };
  },
  perform: (turn, order, { cause, actionId }) => {
    const isAdventure = order.entity === "adventure";
    const problem = isAdventure ? turn.changeAdventure(order) : turn.changeQuest(order, cause);
    if (problem !== undefined) turn.warn(`update_quest ${actionId}: ${order.key}: ${problem}`);
  },
});

/** All kinds of actions. */
const KINDS = [
  grantXp,
  adjustCurrency,
  adjustLives,
  updateBadge,
  updateQuest,
  submitScore,
  updatePlayer,
  grantReward,
  applyBoost,
  emitEvent,
] as const;

export type Action = z.output<(typeof KINDS)[number]["schema"]>;

const ACTION_TYPES: readonly string[] = KINDS.map(({ type }) => type);

export const ActionSchema = z.discriminatedUnion(
  "type",
  KINDS.map(({ schema }) => schema) as unknown as [(typeof KINDS)[number]["schema"]],
  {
    error: (issue) =>
      issue.code === "invalid_union" ? `must be one of ${ACTION_TYPES.join(", ")}` : undefined,
  },
) as unknown as z.ZodType<Action>;

type AnyKind = ActionKind<z.ZodObject, object>;

const BY_TYPE = new Map<string, AnyKind>(KINDS.map((kind) => [kind.type, kind as unknown as AnyKind]));

/** Returns the kind of an action that was resolved before; undefined when it no longer exists. */
export const kindOf = (type: string): AnyKind | undefined => BY_TYPE.get(type);

/** Summaries of all kinds, in order. */
export const ACTION_SUMMARIES: readonly (readonly [type: string, summary: string])[] = KINDS.map(
  ({ type, summary }) => [type, summary],
);

const sendingOf = ({ target, delaySeconds }: Action): Sending | undefined => {
  const other = target === undefined || target === "PLAYER" ? undefined : target.externalUserId;
  return other === undefined && delaySeconds === undefined ? undefined : { target: other, delaySeconds };
};

export const compileAction = (action: Action, firing: Firing): Act => {
  const kind = BY_TYPE.get(action.type)!;
  const resolve = kind.compile(action, firing.actionId);
  const sending = sendingOf(action);
  if (sending) return compileSending(sending, { type: kind.type, resolve, firing });
  return (turn) => {
    const resolved = resolve(turn);
    if (resolved !== undefined) kind.perform(turn, resolved, actionRecordOf(turn, firing));
  };
};

/** Returns whether the action may throw RuleFailure. */
export const canFail = (action: Action): boolean =>
  sendingOf(action) !== undefined || BY_TYPE.get(action.type)!.canFail(action);
