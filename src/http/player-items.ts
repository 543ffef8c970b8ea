import { DomainError } from "../domain/kernel/errors.ts";
import { firstProblem } from "../domain/kernel/zod-problems.ts";
import { ignoredFields } from "../domain/kernel/ignored-fields.ts";
import { parseSized } from "../domain/kernel/oversize.ts";
import type { PlayerInput } from "../domain/progression/players/upsert.ts";
import { mapInSlices } from "../domain/kernel/slices.ts";
import { refuseHostile } from "../domain/kernel/hostile-json.ts";
import { NewPlayer } from "./resources/player-bodies.ts";

/** One player of a batch, or why it is invalid. */
export type ReadItem =
  | { externalUserId: string; player: PlayerInput; ignored: string[] }
  | { externalUserId: string | null; problem: string };

/** Parses the players of a batch one by one, so that an invalid one is refused individually. */
export const readPlayerItems = (items: readonly unknown[]): Promise<ReadItem[]> =>
  mapInSlices(items, readItem);

const FIELDS: ReadonlySet<string> = new Set(Object.keys(NewPlayer.shape));

const readItem = (item: unknown): ReadItem => {
  const hostile = hostileProblem(item);
  if (hostile !== undefined) return { externalUserId: null, problem: hostile };
  const read = parseSized(NewPlayer, item);
  if (read.success) {
    const { tags, ...profile } = read.data;
    const player = { ...profile, ...(tags ? { addTags: tags } : {}) };
    return { externalUserId: player.externalUserId, player, ignored: ignoredFields(item, FIELDS) };
  }
  return { externalUserId: fitId(item), problem: firstProblem(read.error) };
};

const hostileProblem = (item: unknown): string | undefined => {
  try {
    refuseHostile("", item);
    return undefined;
  } catch (error) {
    if (error instanceof DomainError) return error.message;
    throw error;
  }
};

const fitId = (item: unknown): string | null => {
  const id = NewPlayer.shape.externalUserId.safeParse(
    (item as { externalUserId?: unknown } | null)?.externalUserId,
  );
  return id.success ? id.data : null;
};
