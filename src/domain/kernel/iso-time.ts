import { AsyncLocalStorage } from "node:async_hooks";
import { z } from "zod";
import { plainCalendar, windowStart } from "./zones.ts";

const DAY_MS = 86_400_000;
/** The zone of the project that a request is about. */
const zones = new AsyncLocalStorage<string>();

/** Runs something in which dates that are given as times are days of a zone; otherwise they are those of UTC. */
export const inZone = <T>(zone: string, run: () => T): T => zones.run(zone, run);

/** Returns when a date begins in a zone, by default that of `inZone`; of anything else the text itself. */
export const beginningOf = (text: string, zone = zones.getStore() ?? "UTC"): string =>
  text.length === "2026-01-31".length
    ? new Date(windowStart("DAY", plainCalendar(zone), Date.parse(text) / DAY_MS)).toISOString()
    : text;

/** What is none of them is read no further: a date that does not exist begins at no time. */
const FORMS = [z.iso.datetime({ offset: true, abort: true }), z.iso.date({ abort: true })] as const;
const error = "must be an ISO 8601 date-time with a zone, such as 2026-01-31T12:00:00Z, or a date";

/** As `IsoTime`, where something else says in which zone a date begins. */
export const IsoTimeOrDate = z.union(FORMS, { error });

/**
 * A time as integrators and designers send it: ISO 8601 with `Z` or an offset, or a date, which is when it begins
 * in the project's time zone.
 */
export const IsoTime = z.union([FORMS[0], FORMS[1].overwrite((day) => beginningOf(day))], { error });

/** Returns a time as ISO 8601: one in ms, of a row, or of JSON that SQL has made. */
export const isoOf = <T extends Date | number | string | null | undefined>(at: T) =>
  (at == null ? null : new Date(at).toISOString()) as T extends null | undefined ? null : string;

/** As `isoOf`, of an end in ms that may never come: null then. */
export const endIsoOf = (ms: number | null): string | null =>
  isoOf(ms !== null && Number.isFinite(ms) ? ms : null);

/** Returns whether a span ends before it has begun; one without a beginning or an end does not. */
export const isEmptySpan = (from: string | undefined, until: string | undefined): boolean =>
  from !== undefined && until !== undefined && Date.parse(until) <= Date.parse(from);

/** Returns a time in ms, or another where there is none. */
export const msOf = (text: string | undefined, otherwise: number): number =>
  text === undefined ? otherwise : Date.parse(text);
