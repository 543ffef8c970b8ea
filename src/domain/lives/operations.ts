import { sql } from "kysely";
import { conflict, notFound } from "../errors.ts";
import type { LivesView } from "../events.ts";
import { newId } from "../ids.ts";
import type { PlayerKey } from "../ledger/reference.ts";
import { changePlayer } from "../progression/change.ts";
import { type ProjectSettings, settingsFrom } from "../projects/project.ts";
import type { Work } from "../work.ts";
import { adjustLives, type LivesChange, showLives } from "./lives.ts";

type Row = {
  settings: Partial<ProjectSettings>;
  lives: number | null;
  lives_anchor_at: Date | string | null;
  lives_unlimited_until: Date | string | null;
  created_at: Date | string;
};

const msOf = (value: Date | string | null): number | null =>
  value === null ? null : new Date(value).getTime();

/** A player's lives now; null where the project has none. @throws DomainError NOT_FOUND */
export const readLives = async (
  { db, now }: Work,
  { projectId, id }: PlayerKey,
): Promise<LivesView | null> => {
  const { rows } = await sql<Row>`
    select j.settings, p.lives, p.lives_anchor_at, p.lives_unlimited_until, p.created_at
    from players p join projects j on j.id = p.project_id
    where p.project_id = ${projectId} and p.id = ${id}`.execute(db);
  const [row] = rows;
  if (!row) throw notFound("player");
  const lives = {
    count: row.lives,
    anchorMs: msOf(row.lives_anchor_at),
    unlimitedUntilMs: msOf(row.lives_unlimited_until),
  };
  const player = { lives, createdAt: new Date(row.created_at) };
  return showLives(settingsFrom(row.settings).lives, player, now.getTime());
};

export type LivesRequest = Pick<LivesChange, "amount" | "refill" | "unlimitedSeconds" | "reason" | "cause">;

/**
 * Changes lives by REST. A loss beyond what there is changes nothing; a gain goes as far as there is room.
 * @throws DomainError CONFLICT: LIVES_DISABLED, INSUFFICIENT_LIVES, PLAYER_INACTIVE
 */
export const changeLives = async (
  work: Work,
  { projectId, id }: PlayerKey,
  request: LivesRequest,
): Promise<LivesView> => {
  const { value: turn } = await changePlayer(work, projectId, id, (opened) => {
    const { status } = opened.player;
    const isGain = (request.amount ?? 0) >= 0;
    if (isGain && status !== "ACTIVE") throw conflict("PLAYER_INACTIVE", `the player is ${status}`);
    const { problem } = adjustLives(opened, { ...request, onInsufficient: "REFUSE", key: `api:${newId()}` });
    if (problem === "LIVES_DISABLED") throw conflict(problem, "this project has no lives");
    if (problem !== undefined) throw conflict(problem, "the player has fewer lives");
    return opened;
  });
  return showLives(turn.project.settings.lives, turn.player, turn.nowMs)!;
};
