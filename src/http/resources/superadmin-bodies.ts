import assert from "node:assert/strict";
import { z } from "zod";
import type { Caller } from "../../domain/caller.ts";
import type { Total } from "../../domain/counting.ts";
import { type Page, pageOf, type PageQuery } from "../../domain/paging.ts";
import { Reply } from "../route.ts";

export const REASON_MAX = 500;
const SEARCH_MAX = 100;

/** What all operations of super-admins share. */
export const superadmin = { tag: "Super-admin", project: "none" } as const;
/** Of people: platform tokens have no use of them. */
export const PEOPLE = { admin: "*" } as const;

export const Order = z.enum(["asc", "desc"]).default("desc");
export const Search = z.string().min(1).max(SEARCH_MAX).optional();
/** `true` or `false` in a query. */
export const Flag = z
  .enum(["true", "false"])
  .optional()
  .transform((text) => (text === undefined ? undefined : text === "true"))
  .meta({ override: { type: "boolean" } });

export const ReasonBody = z.object({
  reason: z.string().trim().min(1).max(REASON_MAX).meta({ example: "Fake address" }),
});

export const adminIdOf = (caller: Caller): string => {
  assert(caller.kind === "admin", "these operations know no other callers");
  return caller.adminId;
};

/** A page, with the header that tells an estimated total. */
export const pageReply = <T>(data: T[], { total, isEstimated }: Total, query: PageQuery): Reply<Page<T>> =>
  new Reply(200, pageOf(data, total, query), isEstimated ? { "X-Total-Estimated": "true" } : {});
