import { type Kysely, sql } from "kysely";

/** What a game's players did: how many, over how many days, and roughly how many events in all. */
export type History = { players: number; days: number; events: number };

const DAY_MS = 86_400_000;

/** A number in [0, 1) that is the same for the same numbers. */
const chance = (...of: readonly string[]) =>
  sql.raw(`((hashint8extended(${of.join(" * 1000003::bigint + ")}, 7) & 1048575) / 1048576.0)`);

/** Each type with the share of events up to it. */
const TYPES = { "session.started": 0.2, "match.played": 0.55, "match.won": 0.75, "quiz.done": 1 };
const type = sql.raw(
  `case ${Object.entries(TYPES)
    .map(([name, upTo]) => `when kind < ${upTo} then '${name}'`)
    .join(" ")} end`,
);

/**
 * Fills a project with players who come on any day, more on weekends, return less and less, and play in the
 * evening. The same numbers give the same history, up to the ids of players.
 * @returns how many events there are
 */
export const fillHistory = async (
  db: Kysely<unknown>,
  projectId: string,
  { history: { players, days, events }, endMs }: { history: History; endMs: number },
): Promise<number> => {
  const startMs = endMs - days * DAY_MS;
  await sql`
    insert into players (project_id, id, external_user_id, created_at, updated_at)
    select ${projectId}::uuid, gen_random_uuid(), 'player-' || n, now(), now()
    from generate_series(1, ${players}::int) n`.execute(db);
  // Active days of a player are about 1 + 12 on average; so many events on each give the wanted sum.
  const perDay = Math.max(1, Math.round(events / (players * 5.1)));
  await sql`
    with p as (
      select n, floor(${chance("n", "1")} * ${days}::int)::int as born, ${chance("n", "2")} as zeal
      from generate_series(1, ${players}::bigint) n),
    d as (
      select p.n, day, day - p.born as age from p, generate_series(p.born, ${days}::int - 1) day
      where day = p.born or ${chance("p.n", "day")} <
        (0.15 + 0.6 * p.zeal * p.zeal) * (0.25 + 0.75 * exp(-(day - p.born) / 9.0))
          * case when day % 7 in (0, 6) then 1.25 else 1 end),
    e as (
      select d.n, d.day, i, ${startMs}::bigint + d.day * ${DAY_MS}::bigint
          + floor((0.75 * ${chance("d.n", "d.day", "3")} + 0.2 * ${chance("d.n", "d.day", "i", "5")})
            * ${DAY_MS}::bigint)::bigint as ms,
        ${chance("d.n", "d.day", "i", "11")} as kind
      from d, generate_series(1, greatest(1, (2 * ${perDay}::int * ${chance("d.n", "d.day", "13")})::int)) i)
    insert into tracked_events
      (project_id, id, external_user_id, event_type, properties, occurred_at, received_at)
    select ${projectId}::uuid, (substr(lpad(to_hex(ms), 12, '0'), 1, 12)
        || '7' || substr(md5(n || ' ' || day || ' ' || i), 1, 3)
        || '8' || substr(md5(i || ' ' || day || ' ' || n), 1, 15))::uuid,
      'player-' || n, ${type},
      jsonb_build_object('level', 1 + (n + day) % 40, 'team', (array['red','green','blue'])[1 + n % 3]),
      to_timestamp(ms / 1000.0), to_timestamp(ms / 1000.0)
    from e order by ms`.execute(db);
  await sql`analyze tracked_events, players`.execute(db);
  const { rows } = await sql<{ n: string }>`
    select count(*) as n from tracked_events where project_id = ${projectId}`.execute(db);
  return Number(rows[0]!.n);
};
