import { z } from "zod";
import { IsoTime } from "../../kernel/iso-time.ts";
import { Cron } from "../language/cron.ts";
import { Zone } from "../language/syntax.ts";
import { NOT_SUPPORTED } from "./unknown-fields.ts";

/** How long a window accepts scores from before its end after it has ended. */
export const CLOSE_GRACE_SECONDS_DEFAULT = 60;
export const CLOSE_GRACE_SECONDS_MAX = 86_400;
/** Closed periods whose entries are kept. */
export const KEEP_PERIODS_DEFAULT = 52;
export const KEEP_PERIODS_MAX = 1_000;
/** Maximum length of a FIXED period, in days. */
const FIXED_DAYS_MAX = 3_660;
const DAY_MS = 86_400_000;

const CloseGraceSeconds = z
  .int()
  .min(0)
  .max(CLOSE_GRACE_SECONDS_MAX)
  .describe("How long after the end of a window scores from before its end are accepted");
const KeepPeriods = z
  .int()
  .min(1)
  .max(KEEP_PERIODS_MAX)
  .describe("Number of closed periods whose entries are kept; results are kept for all");

const timezone = Zone.default("UTC").describe(
  "One time zone for all players, so that all compete in the same window",
);
const closing = {
  timezone,
  closeGraceSeconds: CloseGraceSeconds.default(CLOSE_GRACE_SECONDS_DEFAULT),
  keepPeriods: KeepPeriods.default(KEEP_PERIODS_DEFAULT),
};

const periodic = <K extends string>(kind: K) =>
  z.strictObject({ kind: z.literal(kind), ...closing }, NOT_SUPPORTED);

const Fixed = z
  .strictObject({ kind: z.literal("FIXED"), startsAt: IsoTime, endsAt: IsoTime, ...closing }, NOT_SUPPORTED)
  .superRefine(({ startsAt, endsAt }, context) => {
    const lasts = Date.parse(endsAt) - Date.parse(startsAt);
    const refuse = (message: string): void => context.addIssue({ code: "custom", path: ["endsAt"], message });
    if (lasts <= 0) refuse("must be after startsAt");
    if (lasts > FIXED_DAYS_MAX * DAY_MS) refuse(`must be at most ${FIXED_DAYS_MAX} days after startsAt`);
  });

/** How a board's time is divided into windows. */
export const Period = z.discriminatedUnion(
  "kind",
  [
    z.strictObject({ kind: z.literal("ALL_TIME"), timezone }, NOT_SUPPORTED),
    periodic("DAILY"),
    z.strictObject(
      {
        kind: z.literal("WEEKLY"),
        weekStartsOn: z
          .union([z.literal(1), z.literal(7)])
          .default(1)
          .describe("1: Monday, 7: Sunday"),
        ...closing,
      },
      NOT_SUPPORTED,
    ),
    periodic("MONTHLY"),
    z.strictObject({ kind: z.literal("CRON"), cron: Cron, ...closing }, NOT_SUPPORTED),
    Fixed,
  ],
  { error: "must have a kind of ALL_TIME, DAILY, WEEKLY, MONTHLY, CRON or FIXED" },
);
export type Period = z.output<typeof Period>;

/** Fields of a period that may change. */
export const PeriodPatch = z.strictObject(
  { closeGraceSeconds: CloseGraceSeconds.optional(), keepPeriods: KeepPeriods.optional() },
  NOT_SUPPORTED,
);
export type PeriodPatch = z.output<typeof PeriodPatch>;

/** Returns how long a window accepts scores after its end, in ms. */
export const graceMsOf = (period: Period): number =>
  (period.kind === "ALL_TIME" ? 0 : period.closeGraceSeconds) * 1_000;

/** Returns how many closed periods keep their entries. */
export const keepPeriodsOf = (period: Period): number =>
  period.kind === "ALL_TIME" ? KEEP_PERIODS_DEFAULT : period.keepPeriods;

/** Returns the part of a period that determines its windows; the rest may change. */
export const windowsOf = (period: Period): object => {
  if (period.kind === "ALL_TIME") return period;
  const { closeGraceSeconds: _grace, keepPeriods: _kept, ...windows } = period;
  return windows;
};
