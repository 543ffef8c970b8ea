import { sql } from "kysely";
import { Definition } from "../definitions/definition.ts";
import { conflict, invalid, notFound } from "../errors.ts";
import type { BoostView } from "../events.ts";
import type { PlayerKey } from "../ledger/reference.ts";
import { changePlayer } from "../progression/change.ts";
import type { Turn } from "../progression/turn.ts";
import type { Work } from "../work.ts";
import { BOOSTS_MAX, endBoost, isRunning, type NewBoost, showBoost, startBoost } from "./boosts.ts";
import { type CampaignBoost, compileCampaign, showCampaign } from "./campaign-boost.ts";

type Row = {
  id: string;
  boost_key: string;
  applies: string;
  factor: number;
  starts_at: Date | string;
  expires_at: Date | string;
  uses_left: number | null;
};

const iso = (value: Date | string): string => new Date(value).toISOString();

const showRow = (row: Row): BoostView => ({
  id: row.id,
  boostKey: row.boost_key,
  applies: row.applies,
  factor: Number(row.factor),
  startsAt: iso(row.starts_at),
  expiresAt: iso(row.expires_at),
  usesLeft: row.uses_left,
  scope: "PLAYER",
});

/** A player's own boosts that have not ended, and the campaigns that are on for the player. */
export const listBoosts = async (work: Work, player: PlayerKey): Promise<BoostView[]> => {
  const { db, now } = work;
  const { rows } = await sql<Row>`
    select id, boost_key, applies, factor, starts_at, expires_at, uses_left from player_boosts
    where project_id = ${player.projectId} and player_id = ${player.id}
      and expires_at > ${now.toISOString()}::timestamptz
    order by expires_at, id limit ${BOOSTS_MAX}`.execute(db);
  return [...rows.map(showRow), ...(await listCampaigns(work, player))];
};

const listCampaigns = async ({ db, em, now }: Work, player: PlayerKey): Promise<BoostView[]> => {
  const { projectId } = player;
  const definitions = await em.find(
    Definition,
    { projectId, kind: "boost", status: "ACTIVE" },
    { orderBy: { key: "asc" } },
  );
  if (definitions.length === 0) return [];
  const { rows } = await sql<{ key: string }>`
    select segment_key as key from player_segments
    where project_id = ${projectId} and player_id = ${player.id}`.execute(db);
  const segments = new Map(rows.map(({ key }) => [key, 0]));
  const scene = { player: { segments }, event: { at: now.getTime() } };
  return definitions
    .map(({ id, definition }) => compileCampaign({ id, definition: definition as unknown as CampaignBoost }))
    .filter((campaign) => isRunning(scene, campaign))
    .map(showCampaign);
};

/**
 * Starts a boost by REST.
 * @throws DomainError VALIDATION_ERROR for a currency or leaderboard that is not there; CONFLICT: BOOST_LIMIT,
 * PLAYER_INACTIVE
 */
export const boostPlayer = async (
  work: Work,
  { projectId, id }: PlayerKey,
  boost: NewBoost,
): Promise<BoostView> => {
  const { value } = await changePlayer(work, projectId, id, (turn) => {
    const { status } = turn.player;
    if (status !== "ACTIVE") throw conflict("PLAYER_INACTIVE", `the player is ${status}`);
    checkTarget(turn, boost.applies);
    const started = startBoost(turn, boost).boost;
    if (!started) throw conflict("BOOST_LIMIT", `a player may have ${BOOSTS_MAX} boosts`);
    return showBoost(started);
  });
  return value;
};

const checkTarget = ({ project }: Turn, applies: string): void => {
  const [target, key = ""] = applies.split(":") as [string, string?];
  if (target === "currency" && !project.currencies.has(key))
    throw invalid("applies", `there is no currency ${key}`);
  if (target === "score" && !project.boardsByKey.has(key))
    throw invalid("applies", `there is no leaderboard ${key}`);
};

/** Ends one of a player's own boosts before its time. @throws DomainError NOT_FOUND */
export const removeBoost = async (
  work: Work,
  { projectId, id }: PlayerKey,
  boostId: string,
): Promise<void> => {
  await changePlayer(work, projectId, id, (turn) => {
    const row = turn.player.boosts.get(boostId);
    if (!row || row.expiresMs <= turn.nowMs) throw notFound("boost");
    endBoost(turn, row, "REMOVED");
  });
};
