import type { RewardGrantRow } from "../effects.ts";
import type { Live } from "../live.ts";
import { type BundleGrant, isEmptyBundle, multiplyBundle, type Reward } from "./bundle.ts";
import { QUANTITY_MAX } from "./parts.ts";
import type { SharedKey } from "../shared-counters.ts";
import { playerOf, type Turn, write } from "../turn.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { msOf } from "../../kernel/iso-time.ts";

/** Grants everything in a bundle. Parts that cannot be granted (an archived currency, say) add a warning. */
export const grantBundle = (turn: Turn, grant: BundleGrant): void => {
  if (!isEmptyBundle(grant.bundle)) turn.give(turn, grant);
};

/** Kinds that may be limited across players: awards of a badge, pieces of a reward, places in a quest. */
export type LimitedKind = "badge" | "reward" | "quest";

/** Returns the shared counter of a limited badge, reward or quest. */
export const limitedKey = (projectId: string, kind: LimitedKind, key: string): SharedKey => ({
  projectId,
  scope: `${kind}:${key}`,
  windowNo: 0,
});

export type RewardGrant = {
  rewardKey: string;
  quantity: number;
  /** CLAIM waits until the player claims it. A prize with a code always does: the code is assigned then. */
  delivery: "AUTO" | "CLAIM";
  /** How long it can be claimed; default: as the reward says. */
  expiresInSeconds?: number | undefined;
  cause: Cause;
  /** Deterministic, unique for the player. */
  key: string;
  /** For a prize with a code: the grant's id and the code reserved for it. Such a grant does not wait. */
  prize?: { grantId: string; code: string };
};
export type RewardProblem = "UNKNOWN_REWARD" | "NOT_AVAILABLE" | "OUT_OF_STOCK" | "LIMIT_REACHED";

/** Maximum codes of one grant: each is a grant of its own. */
const CODES_AT_ONCE_MAX = 100;

/** Returns how many of a reward the player was granted. */
const givenTo = ({ player }: Turn, key: string): number => {
  const counts = player.doc.w ?? {};
  return Object.hasOwn(counts, key) ? counts[key]! : 0;
};

/** Returns why the player cannot be granted a reward now. */
export const rewardProblem = (turn: Turn, reward: Reward, quantity: number): RewardProblem | undefined => {
  const { key, availableFrom: from, availableUntil: until, perPlayerLimit, stock } = reward;
  const { at } = turn.event;
  if (at < msOf(from, -Infinity) || at >= msOf(until, Infinity)) return "NOT_AVAILABLE";
  if (perPlayerLimit !== undefined && givenTo(turn, key) + quantity > perPlayerLimit) return "LIMIT_REACHED";
  if (stock === undefined) return undefined;
  const used = turn.shared.used(limitedKey(turn.project.projectId, "reward", key));
  return used + quantity > stock ? "OUT_OF_STOCK" : undefined;
};

const take = (turn: Turn, { key, stock }: Reward, quantity: number): void => {
  const { player, shared, project } = turn;
  if (stock !== undefined) shared.add(limitedKey(project.projectId, "reward", key), quantity);
  player.doc = { ...player.doc, w: { ...player.doc.w, [key]: givenTo(turn, key) + quantity } };
  player.dirty.doc = true;
};

const countOf = (turn: Turn, { fulfilment, key }: Reward, quantity: number): number => {
  const most = fulfilment === "CODE" ? CODES_AT_ONCE_MAX : QUANTITY_MAX;
  if (quantity > most) turn.warn(`reward ${key}: ${most} of ${quantity} are given`);
  return Math.min(most, quantity);
};

/**
 * Grants a reward of the catalogue: `player.reward_granted`, and the contents of a bundle at once unless it
 * must be claimed. Of a prize with codes, each piece is a grant of its own; the first one is returned.
 */
export const grantReward = (
  turn: Turn,
  grant: RewardGrant,
): { grant: RewardGrantRow } | { problem: RewardProblem } => {
  const live = turn.project.rewards.get(grant.rewardKey);
  if (!live) return { problem: "UNKNOWN_REWARD" };
  const reward = live.definition;
  const quantity = countOf(turn, reward, grant.quantity);
  const problem = rewardProblem(turn, reward, quantity);
  if (problem !== undefined) return { problem };
  take(turn, reward, quantity);
  if (reward.fulfilment !== "CODE") return { grant: makeGrant(turn, live, { ...grant, quantity }) };
  const [first] = Array.from({ length: quantity }, (_, n) =>
    makeGrant(turn, live, { ...grant, quantity: 1, key: n === 0 ? grant.key : `${grant.key}:${n}` }),
  );
  return { grant: first! };
};

/** Returns until when a waiting grant can be claimed, in ms; null: without limit, or it does not wait. */
const expiryOf = (
  { nowMs }: Turn,
  { claimSeconds }: Reward,
  { expiresInSeconds = claimSeconds }: RewardGrant,
): number | null => (expiresInSeconds === undefined ? null : nowMs + expiresInSeconds * 1_000);

const makeGrant = (turn: Turn, { definition: reward }: Live<Reward>, grant: RewardGrant): RewardGrantRow => {
  const { player, root } = turn;
  const { quantity, cause, key, prize } = grant;
  const waits = !prize && (grant.delivery === "CLAIM" || reward.fulfilment === "CODE");
  const row = {
    id: prize ? prize.grantId : newId(),
    projectId: player.projectId,
    playerId: player.id,
    rewardKey: reward.key,
    quantity,
    status: waits ? "PENDING" : "GRANTED",
    key,
    contents: reward.bundle ? multiplyBundle(reward.bundle, quantity) : {},
    code: prize ? prize.code : null,
    cause,
    eventId: root.isTracked ? root.id : null,
    expiresMs: waits ? expiryOf(turn, reward, grant) : null,
  } satisfies RewardGrantRow;
  write(turn, "rewardGrants", row);
  publishReward(turn, row, { kind: reward.kind, code: row.code });
  if (!waits) grantContents(turn, row);
  return row;
};

/** A grant in the form that is published. */
type PublishedGrant = Pick<RewardGrantRow, "id" | "rewardKey" | "contents" | "cause"> & { status: string };

/** Emits `player.reward_granted`: when it is granted, and again when it is claimed or fulfilled. */
export const publishReward = (
  turn: Turn,
  { id: grantId, rewardKey, status, contents, cause }: PublishedGrant,
  { kind, code }: { kind: Reward["kind"]; code: string | null },
): void => {
  const granted = { grantId, rewardKey, kind, status, contents, code, drawProof: null, cause };
  turn.emit("player.reward_granted", { ...playerOf(turn), ...granted });
};

/** Grants the contents of a granted bundle: ledger keys begin with the grant's own key. */
export const grantContents = (
  turn: Turn,
  grant: Pick<RewardGrantRow, "id" | "rewardKey" | "contents" | "cause" | "key">,
): void => {
  const { id, rewardKey, contents, cause, key } = grant;
  const { eventId, rootEventId, actor } = cause;
  const origin = Object.entries({ eventId, rootEventId, actor }).filter(([, value]) => value !== undefined);
  grantBundle(turn, {
    bundle: contents,
    cause: { kind: "REWARD", refKey: rewardKey, refId: id, ...Object.fromEntries(origin) },
    key,
    reason: `reward:${rewardKey}`,
  });
};
