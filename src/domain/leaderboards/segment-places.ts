import { sql } from "kysely";
import { getDefinition } from "../economy/definitions/definitions.ts";
import { invalid } from "../kernel/errors.ts";
import { segmentKind } from "../economy/segments/kind.ts";
import type { Work } from "../kernel/work.ts";
import type { Standing } from "../evaluation/boards/ranks.ts";

/** Maximum number of places examined for the players of a segment. */
export const SCOPE_EXAMINED_MAX = 10_000;

export type Scope = { segmentKey: string };

const SEGMENT = /^segment:(.+)$/;
const LATER = /^(friends|group:.+|league)$/;

/** Parses `scope`. @throws DomainError VALIDATION_ERROR */
export const scopeOf = (scope: string | undefined): Scope | undefined => {
  if (scope === undefined) return undefined;
  if (LATER.test(scope)) throw invalid("scope", `${scope} is not available yet`);
  const segmentKey = SEGMENT.exec(scope)?.[1];
  if (segmentKey === undefined) throw invalid("scope", "must be segment: and the key of a segment");
  return { segmentKey };
};

/** @throws DomainError NOT_FOUND for a segment that the project does not have */
export const checkSegment = async (work: Work, projectId: string, { segmentKey }: Scope): Promise<void> => {
  await getDefinition(work, projectId, segmentKind, segmentKey);
};

/** Returns those of `standings` whose players are in the segment, in order. */
export const inSegment = async (
  { db }: Work,
  { projectId, segmentKey }: Scope & { projectId: string },
  standings: readonly Standing[],
): Promise<Standing[]> => {
  if (standings.length === 0) return [];
  const ids = `{${standings.map(({ playerId }) => playerId).join(",")}}`;
  const result = await sql<{ player_id: string }>`
    select player_id from player_segments
    where project_id = ${projectId} and segment_key = ${segmentKey}
      and player_id = any(${ids}::uuid[])`.execute(db);
  const members = new Set(result.rows.map((row) => row.player_id));
  return standings.filter(({ playerId }) => members.has(playerId));
};
