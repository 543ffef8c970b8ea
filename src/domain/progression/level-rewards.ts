import { z } from "zod";
import { definitionKind } from "../definitions/kind.ts";
import { invalid } from "../errors.ts";
import { grantBundle, RewardBundle } from "../rewards/bundle.ts";
import { checkBundles } from "../rewards/references.ts";
import { LEVELS_MAX } from "./levels.ts";
import type { PlayerDoc } from "./player-state.ts";
import type { Turn } from "./turn.ts";

/** Perks of one level. */
const PERKS_MAX = 50;
/** Bytes of a level's perks as JSON. */
const PERKS_MAX_BYTES = 8 * 1024;

const shape = z.strictObject({
  key: z
    .string()
    .regex(/^[1-9]\d{0,3}$/, { error: "must be the number of a level, such as 5", abort: true })
    .refine((key) => Number(key) <= LEVELS_MAX, `must be at most ${LEVELS_MAX}`)
    .meta({ description: "The level's number as text", example: "5" }),
  name: z.string().min(1).max(100),
  iconUrl: z
    .url({ protocol: /^https$/ })
    .max(2_048)
    .optional(),
  rewards: RewardBundle.default({}),
  perks: z
    .record(z.string().min(1).max(64), z.unknown())
    .refine((perks) => Object.keys(perks).length <= PERKS_MAX, `must be at most ${PERKS_MAX}`)
    .refine(
      (perks) => Buffer.byteLength(JSON.stringify(perks)) <= PERKS_MAX_BYTES,
      "must be at most 8 KiB of JSON",
    )
    .default({})
    .meta({ description: "Shown to players as they are; the service does nothing with them" }),
});

/** What a level is called and what reaching it gives. */
export const Level = shape;
export type Level = z.output<typeof Level>;

export const levelKind = definitionKind<Level>({
  kind: "level",
  plural: "levels",
  tag: "Levels",
  schema: Level,
  shape,
  max: LEVELS_MAX,
  check: async (work, projectId, { key, rewards }) => {
    // XP for a level could reach the next one, and so on to the last.
    if (rewards.xp !== undefined) throw invalid("rewards.xp", "a level cannot give XP");
    const bundles = [{ bundle: rewards, field: "rewards" }];
    await checkBundles(work, projectId, { kind: "level", key, bundles });
  },
});

/** A reward that was taken back can be given again, under another key. */
const levelKey = ({ r }: PlayerDoc, level: number): string => {
  const times = r?.[level];
  return times === undefined ? `lvl:${level}` : `lvl:${level}~${times}`;
};

/**
 * Gives the reward of each level from `from + 1` to `to`. Each is given once for ever: a level that was
 * reached, lost and reached again gives nothing the second time (ledger key `lvl:{n}`). A level without a
 * definition when it is reached gives nothing later either.
 */
export const grantLevelRewards = (turn: Turn, from: number, to: number): void => {
  const { player, project, root } = turn;
  if (project.levels.size === 0) return;
  const rewarded = Math.max(from, player.doc.v ?? 0);
  if (to <= rewarded) return;
  // First of all, so that a level reached by what is given here is not taken for one that was not rewarded.
  player.doc = { ...player.doc, v: to };
  player.dirty.doc = true;
  for (let level = rewarded + 1; level <= to; level++) {
    const definition = project.levels.get(level);
    if (!definition) continue;
    const origin = root.isTracked ? { rootEventId: root.id } : {};
    grantBundle(turn, {
      bundle: definition.rewards,
      cause: { kind: "LEVEL", refKey: String(level), ...origin },
      key: levelKey(player.doc, level),
      reason: `level:${level}`,
    });
  }
};
