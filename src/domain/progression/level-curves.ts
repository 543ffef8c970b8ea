import { sql } from "kysely";
import { changeConfig, type Work } from "../kernel/work.ts";
import { buildCurve, type CurveInput, DEFAULT_CURVE, type LevelCurve } from "../evaluation/xp/levels.ts";

type CurveRow = {
  version: number;
  type: CurveInput["type"];
  params: CurveInput["params"];
  thresholds: number[];
};

/** A project's curve with its version; version 0 is the unsaved default. */
export type SavedCurve = LevelCurve & { version: number };

/** Returns the newest curve of a project, or the default. */
export const getCurve = async (work: Work, projectId: string): Promise<SavedCurve> => {
  const found = await sql<CurveRow>`
    select version, type, params, thresholds from level_curves
    where project_id = ${projectId} order by version desc limit 1`.execute(work.db);
  const row = found.rows[0];
  return row ? ({ ...row } as SavedCurve) : { ...DEFAULT_CURVE, version: 0 };
};

export type CurvePut = {
  curve: CurveInput;
  /**
   * SILENT sets every player's level by the new curve without publishing events; NONE leaves levels until the
   * next XP change.
   */
  recalculate: "NONE" | "SILENT";
  /** Display name of the author, for the audit log. */
  actor: string;
};

/**
 * Saves a new version of the project's curve.
 * @throws DomainError VALIDATION_ERROR for a curve that does not rise
 */
export const putCurve = async (work: Work, projectId: string, put: CurvePut): Promise<SavedCurve> => {
  const curve = buildCurve(put.curve);
  // Comes first: waits for batches that evaluate with the old curve, and serialises writers of the next
  // version.
  await changeConfig(work, projectId);
  const settings = await sql<{ allow: boolean }>`
    select coalesce((settings ->> 'allowLevelDown')::boolean, false) as allow
    from projects where id = ${projectId}`.execute(work.db);
  const inserted = await sql<{ version: number }>`
    insert into level_curves (project_id, version, type, params, thresholds, created_by, created_at)
    select ${projectId}, coalesce(max(version), 0) + 1, ${curve.type}, ${JSON.stringify(curve.params)}::jsonb,
      ${JSON.stringify(curve.thresholds)}::jsonb, ${put.actor}, ${work.now.toISOString()}::timestamptz
    from level_curves where project_id = ${projectId} returning version`.execute(work.db);
  if (put.recalculate === "SILENT")
    await recalculate(work, projectId, { curve, mayFall: settings.rows[0]!.allow });
  return { ...curve, version: inserted.rows[0]!.version };
};

/** The thresholds as a parameter: width_bucket() counts how many of them an XP value has reached. */
const pgArray = (curve: LevelCurve): string => `{${curve.thresholds.join(",")}}`;

type Recalculation = { curve: LevelCurve; mayFall: boolean };

const recalculate = async (
  work: Work,
  projectId: string,
  { curve, mayFall }: Recalculation,
): Promise<void> => {
  const reached = sql`width_bucket(xp, ${pgArray(curve)}::bigint[])`;
  const level = mayFall ? reached : sql`greatest(level, ${reached})`;
  // Rows are locked in id order, as in batches, to avoid deadlocks.
  await sql`
    with changed as (
      select id, ${level} as level from players
      where project_id = ${projectId} and level <> ${level} order by id for update)
    update players t set level = changed.level, updated_at = ${work.now.toISOString()}::timestamptz
    from changed where t.project_id = ${projectId} and t.id = changed.id`.execute(work.db);
};

export type CurvePreview = { thresholds: number[]; distribution: { level: number; players: number }[] };

/** Returns the level distribution that a curve would give the project's players; saves nothing. */
export const previewCurve = async (
  work: Work,
  projectId: string,
  input: CurveInput,
): Promise<CurvePreview> => {
  const curve = buildCurve(input);
  const counted = await sql<{ level: number; players: number }>`
    select width_bucket(xp, ${pgArray(curve)}::bigint[]) as level, count(*) as players
    from players where project_id = ${projectId} group by 1 order by 1`.execute(work.db);
  const distribution = counted.rows;
  return { thresholds: curve.thresholds, distribution };
};
