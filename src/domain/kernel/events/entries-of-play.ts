import { z } from "zod";
import { CauseShape } from "./events.ts";
import { Data, Id, PLAYER, Text, Time } from "./shapes.ts";

const subject = { ...PLAYER, adventureKey: Text };

export const adventureTypes = {
  "adventure.started": {
    occurs: "a player joined an adventure",
    data: z.object({
      ...subject,
      adventureId: Id,
      season: Text.nullable(),
      endsAt: Time,
      startedAt: Time,
    }),
  },
  "adventure.quest_unlocked": {
    occurs: "a quest of an adventure was unlocked for a player",
    data: z.object({ ...subject, questKey: Text }),
  },
  "adventure.tier_reached": {
    occurs: "a player reached a tier of an adventure",
    data: z.object({
      ...subject,
      tier: z.int(),
      points: z.int(),
      premium: z.boolean().meta({ description: "Whether the player has premium" }),
    }),
  },
  "adventure.completed": {
    occurs: "a player completed an adventure",
    data: z.object({
      ...subject,
      adventureId: Id,
      season: Text.nullable(),
      points: z.int(),
      questsCompleted: z.int(),
      rewards: Data,
      claimRequired: z.boolean(),
      completedAt: Time,
    }),
  },
  "adventure.claimed": {
    occurs: "rewards of an adventure, or of a tier of it, were granted",
    data: z.object({
      ...subject,
      tier: z.int().nullable().meta({ description: "Null for the rewards of the whole adventure" }),
      track: z.enum(["FREE", "PREMIUM"]).nullable(),
      rewards: Data,
    }),
  },
};

const LIST = {
  leaderboardKey: Text,
  leaderboardId: Id,
  periodKey: Text.meta({ description: "Such as 2026-W02, or ALL_TIME" }),
  board: Text.meta({ description: "The value of the breakdown; empty without one" }),
};

export const leaderboardTypes = {
  "leaderboard.rank_changed": {
    occurs:
      "a player's rank changed significantly, as the board's rankChange says: across the edge of a band, or " +
      "by enough places; at most once a minute",
    data: z.object({
      ...PLAYER,
      ...LIST,
      previousRank: z.int().nullable(),
      newRank: z.int(),
      direction: z.enum(["UP", "DOWN", "NEW"]),
      score: z.number(),
      crossed: z.array(z.int()),
      participants: z.int(),
      reason: z.enum(["BAND", "DELTA", "ENTERED"]),
    }),
  },
  "leaderboard.new_leader": {
    occurs: "a leaderboard has a new first place",
    data: z.object({
      ...LIST,
      leader: z.object({ ...PLAYER, displayName: Text.nullable(), score: z.number() }),
      previousLeader: z.object({ ...PLAYER, score: z.number() }).nullable(),
      margin: z.number().nullable(),
    }),
  },
  "leaderboard.period_started": {
    occurs: "a period of a leaderboard began",
    data: z.object({ ...LIST, startsAt: Time.nullable(), endsAt: Time.nullable() }),
  },
  "leaderboard.period_closed": {
    occurs: "a period of a leaderboard was closed: its results are final",
    data: z.object({
      ...LIST,
      participants: z.int(),
      top: z.array(z.object({ ...PLAYER, displayName: Text.nullable(), rank: z.int(), score: z.number() })),
      prizesGranted: z.int(),
      promoted: z.int(),
      relegated: z.int(),
      closedAt: Time,
    }),
  },
  "leaderboard.values_ranked": {
    occurs:
      "a period of a leaderboard with a breakdown was closed for all of its values: their order is final",
    data: z.object({
      leaderboardKey: LIST.leaderboardKey,
      leaderboardId: LIST.leaderboardId,
      periodKey: LIST.periodKey,
      by: z.enum(["total", "best"]).meta({ description: "What they are ranked by" }),
      values: z.int().meta({ description: "How many there are" }),
      top: z
        .array(
          z.object({
            rank: z.int(),
            value: Text,
            players: z.int(),
            total: z.number(),
            average: z.number(),
            best: z.number(),
          }),
        )
        .meta({ description: "The first ten" }),
      closedAt: Time,
    }),
  },
  "leaderboard.score_held": {
    occurs: "a submitted score broke a bound and waits for a review",
    data: z.object({ ...PLAYER, ...LIST, score: z.number(), violation: Text, reviewId: Id }),
  },
};

const questSubject = { ...PLAYER, playerQuestId: Id, questKey: Text, cycleKey: Text };
const decided = {
  ...questSubject,
  questId: Id,
  stepKey: Text,
  submissionId: Id.meta({ description: "As in `GET /quest-reviews`" }),
  note: Text.nullable().meta({ description: "What the reviewer has written for the player" }),
};
const percent = z.int().meta({ description: "0 to 100" });

export const questTypes = {
  "quest.started": {
    occurs: "a player started a quest, or it started by itself",
    data: z.object({
      ...questSubject,
      questId: Id,
      questVersion: z.int(),
      startedBy: z.enum(["AUTO", "PLAYER", "API", "RULE"]),
      expiresAt: Time.nullable(),
      startedAt: Time,
    }),
  },
  "quest.progress": {
    occurs: "the percent of a quest changed; once for each quest and event",
    data: z.object({
      ...questSubject,
      percent,
      previousPercent: percent,
      steps: z.array(
        z.object({
          stepKey: Text,
          value: z.number(),
          target: z.number(),
          done: z.boolean(),
          justCompleted: z.boolean(),
        }),
      ),
    }),
  },
  "quest.step_completed": {
    occurs: "a step of a quest was done",
    data: z.object({ ...questSubject, stepKey: Text, rewards: Data.nullable() }),
  },
  "quest.completed": {
    occurs: "a quest was completed",
    data: z.object({
      ...questSubject,
      questId: Id,
      questVersion: z.int(),
      completions: z.int().meta({ description: "Of the player, this one included" }),
      durationSeconds: z.int(),
      rewards: Data,
      claimRequired: z.boolean(),
      claimUntil: Time.nullable(),
      completedAt: Time,
    }),
  },
  "quest.claimed": {
    occurs: "the rewards of a quest were granted",
    data: z.object({ ...questSubject, rewards: Data }),
  },
  "quest.expired": {
    occurs: "the time of a quest, or to claim its rewards, was over",
    data: z.object({ ...questSubject, percent }),
  },
  "quest.approval_requested": {
    occurs: "a player submitted a step that somebody has to approve",
    data: z.object({
      ...questSubject,
      questId: Id,
      stepKey: Text,
      submissionId: Id.meta({ description: "As in `GET /quest-reviews`" }),
      evidenceType: z.enum(["TEXT", "URL"]).nullable(),
      evidence: Text.nullable().meta({ description: "What the player has written: show it as text" }),
    }),
  },
  "quest.submission_approved": {
    occurs: "somebody approved what a player had submitted; the player is told too",
    data: z.object(decided),
  },
  "quest.submission_rejected": {
    occurs: "somebody rejected what a player had submitted; the player is told too, and may submit again",
    data: z.object(decided),
  },
  "quest.failed": {
    occurs: "a quest failed",
    data: z.object({ ...questSubject, cause: CauseShape }),
  },
};

const RUN = { reportId: Id, runId: Id, name: Text, report: Text, dueAt: Time };

export const reportTypes = {
  "report.ready": {
    occurs: "a saved report was run, and its answer can be read at resultUrl for a week",
    data: z.object({
      ...RUN,
      range: z
        .object({ from: z.iso.date(), to: z.iso.date(), timezone: Text })
        .meta({ description: "Local dates of the zone, both included" }),
      resultUrl: Text.meta({ description: "Needs a key or an access token that may read analytics" }),
    }),
  },
  "report.failed": {
    occurs: "a run of a saved report was given up",
    data: z.object({ ...RUN, error: Text }),
  },
};
