import { PRIZES_MAX } from "../../domain/evaluation/boards/definition-parts.ts";
import { BREAKDOWN_VALUE_MAX, BREAKDOWN_VALUES_MAX } from "../../domain/evaluation/boards/lists.ts";
import { FROZEN_COPIES_MAX, FROZEN_KEPT_MS, FROZEN_MAX } from "../../domain/evaluation/boards/ranks.ts";
import { SCORE_META_MAX_BYTES } from "../../domain/evaluation/boards/score-meta.ts";
import { BACKFILL_EVENTS_MAX } from "../../domain/leaderboards/fill.ts";
import { LEADERBOARDS_MAX, LEADERBOARDS_WITH_ARCHIVED_MAX } from "../../domain/leaderboards/leaderboards.ts";
import { FEED_MAX } from "../../domain/leaderboards/notices/feed.ts";
import { SCORES_MAX } from "../../domain/leaderboards/record-scores.ts";
import { SCOPE_EXAMINED_MAX } from "../../domain/leaderboards/segment-places.ts";
import { type Limit, limit } from "./limit.ts";

export const LEADERBOARD_LIMITS: readonly Limit[] = [
  limit("leaderboards", LEADERBOARDS_MAX, "items", "leaderboards of a project that are not archived"),
  limit(
    "leaderboards.withArchived",
    LEADERBOARDS_WITH_ARCHIVED_MAX,
    "items",
    "leaderboards of a project, with archived ones",
  ),
  limit("leaderboard.breakdown.values", BREAKDOWN_VALUES_MAX, "items", "values of a breakdown in a period"),
  limit("leaderboard.breakdown.value", BREAKDOWN_VALUE_MAX, "items", "characters of such a value"),
  limit("leaderboard.prizes", PRIZES_MAX, "items", "prizes of a leaderboard"),
  limit("leaderboard.score.meta", SCORE_META_MAX_BYTES, "bytes", "the meta of a score, as JSON"),
  limit("leaderboard.scores.batch", SCORES_MAX, "items", "scores of one batch"),
  limit("leaderboard.backfill", BACKFILL_EVENTS_MAX, "items", "stored events that a new leaderboard counts"),
  limit("leaderboard.asOf.entries", FROZEN_MAX, "items", "places of a copy that asOf reads"),
  limit("leaderboard.asOf.copies", FROZEN_COPIES_MAX, "items", "copies of a project's boards at a time"),
  limit("leaderboard.asOf.kept", FROZEN_KEPT_MS, "ms", "how long such a copy is kept"),
  limit("leaderboard.scope.examined", SCOPE_EXAMINED_MAX, "items", "places looked at for a scope"),
  limit("leaderboard.feed", FEED_MAX, "items", "rank events kept of a leaderboard"),
];
