import { type RawBuilder, sql } from "kysely";
import { eventsOf } from "../events.ts";
import { lastCompleteDay, SEGMENTS, segmentsOf } from "../segments.ts";
import { findListed, type ListQuestion } from "../lists/list-question.ts";
import { rowReport } from "./report.ts";

/** The groups of segments that a player can be selected by: those of analytics that a column shows. */
const GROUPS = ["lifecycle", "engagement"] as const;

/** Everything that `segment` may be, such as `lifecycle:at_risk`. */
export const PLAYER_SEGMENTS: readonly string[] = GROUPS.flatMap((group) =>
  SEGMENTS[group].map(({ key }) => `${group}:${key}`),
);

/** `list`: those behind a number. */
type PlayerQuery = { segment?: string | undefined; list?: ListQuestion | undefined };

const msOf = (column: RawBuilder<unknown>) => sql`(extract(epoch from ${column}) * 1000)::float8`;

const ofEvents: ReadonlySet<string> = new Set(["firstEventAt", "lastEventAt", "events"]);
const ofSegments: ReadonlySet<string> = new Set(GROUPS);

/**
 * Players with what analytics know of them: those of whom none was merged into another. XP, level and profile
 * are of when the row is read; events and segments of `asOf`.
 */
export const playerReport = rowReport<PlayerQuery>({
  table: "players",
  columns: [
    { name: "playerId", type: "text", select: sql`p.id::text` },
    { name: "externalUserId", type: "text", select: sql`p.external_user_id` },
    { name: "displayName", type: "text", select: sql`p.display_name` },
    { name: "status", type: "text", select: sql`p.status` },
    { name: "level", type: "number", select: sql`p.level::float8` },
    { name: "xp", type: "number", select: sql`p.xp::float8` },
    { name: "country", type: "text", select: sql`p.country` },
    { name: "locale", type: "text", select: sql`p.locale` },
    { name: "timezone", type: "text", select: sql`p.timezone` },
    { name: "tags", type: "json", select: sql`to_jsonb(p.tags)::text` },
    { name: "attributes", type: "json", select: sql`p.attributes::text` },
    { name: "createdAt", type: "time", select: msOf(sql`p.created_at`) },
    { name: "lastSeenAt", type: "time", select: msOf(sql`p.last_seen_at`) },
    { name: "firstEventAt", type: "time", select: msOf(sql`a.first_at`) },
    { name: "lastEventAt", type: "time", select: msOf(sql`a.last_at`) },
    { name: "events", type: "number", select: sql`coalesce(a.n, 0)::float8` },
    { name: "lifecycle", type: "text", select: sql`s.lifecycle` },
    { name: "engagement", type: "text", select: sql`s.engagement` },
    { name: "avatarUrl", type: "text", select: sql`p.avatar_url`, isExtra: true },
    { name: "metadata", type: "json", select: sql`p.metadata::text`, isExtra: true },
    { name: "deletedAt", type: "time", select: msOf(sql`p.deleted_at`), isExtra: true },
  ],
  keys: [{ select: sql`p.id`, type: "uuid" }],
  find: async (work, asked, { list }) => list && findListed(work, asked, list),
  from: ({ asked: { frame }, query: { segment }, uptoId, found }, names) => {
    const [group, key] = segment?.split(":") ?? [];
    const at = { lastDay: lastCompleteDay(frame), untilMs: frame.asOfMs };
    const hasAny = (some: ReadonlySet<string>) => [...some].some((name) => names.has(name));
    const events = hasAny(ofEvents)
      ? sql`left join (
          select player_id, min(at) as first_at, max(at) as last_at, count(*) as n
          from (${eventsOf(frame)}) e group by 1) a on a.player_id = p.id`
      : sql``;
    const segments =
      group !== undefined || hasAny(ofSegments)
        ? sql`left join (${segmentsOf(frame, at)}) s on s.player_id = p.id`
        : sql``;
    return sql`
      from players p ${events} ${segments}
      where p.project_id = ${frame.projectId}::uuid
        and ${found ? sql`p.id in (select player_id from (${found}) l)` : sql`p.merged_into is null`}
        ${uptoId === undefined ? sql`` : sql`and p.id <= ${uptoId}::uuid`}
        ${group === undefined ? sql`` : sql`and s.${sql.ref(group)} = ${key}`}`;
  },
});
