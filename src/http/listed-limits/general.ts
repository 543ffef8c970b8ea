import {
  CHANGE_STEPS_MAX,
  CHANGE_WRITTEN_STEPS_MAX,
  EXPLAIN_STEPS_MAX,
  RULE_STEPS_MAX,
  UPKEEP_STEPS_MAX,
  WRITTEN_STEPS_MAX,
} from "../../domain/evaluation/event-accounts.ts";
import { DEPTH_MAX, DERIVED_MAX } from "../../domain/evaluation/loop-guard.ts";
import { JSON_MAX_DEPTH } from "../../domain/kernel/hostile-json.ts";
import {
  BODY_LIMIT,
  BODY_NAMES_MAX,
  BODY_PARTS_MAX,
  DOCUMENT_MAX_BYTES,
  DOCUMENT_PARTS_MAX,
  LARGE_BODY_PARTS_MAX,
  MATCHMAKE_BODY_LIMIT,
  PUBLIC_BODY_LIMIT,
  PLAYER_SOCKETS_MAX,
  PROBLEMS_MAX,
  PROJECT_ROOMS_MAX,
} from "../../domain/kernel/limits.ts";
import {
  PAGE_BYTES_MAX,
  PAGE_DEPTH_MAX,
  PAGE_LIMIT_DEFAULT,
  PAGE_LIMIT_MAX,
  UNINDEXED_DEPTH_MAX,
} from "../../domain/kernel/paging.ts";
import { type Limit, limit } from "./limit.ts";

/** Limits of requests in general, of rooms together, of evaluation and of pages. */
export const GENERAL_LIMITS: readonly Limit[] = [
  limit("request.body", BODY_LIMIT, "bytes", "the body of a request, unless another limit is named"),
  limit(
    "request.publicBody",
    PUBLIC_BODY_LIMIT,
    "bytes",
    "the same of an operation that is open to everyone",
  ),
  limit("request.body.parts", BODY_PARTS_MAX, "items", "names and values in the JSON of a body"),
  limit(
    "request.body.parts.large",
    LARGE_BODY_PARTS_MAX,
    "items",
    "names and values in a body that may have more bytes than request.body, but for configurations",
  ),
  limit("config.document", DOCUMENT_MAX_BYTES, "bytes", "the body of an import of a configuration"),
  limit("config.document.parts", DOCUMENT_PARTS_MAX, "items", "names and values in such a body"),
  limit("request.body.names", BODY_NAMES_MAX, "items", "names of one object in the JSON of a body"),
  limit("request.body.depth", JSON_MAX_DEPTH, "levels", "objects and arrays inside one another in a body"),
  limit("request.problems", PROBLEMS_MAX, "items", "problems of a request that one answer names"),
  limit("matchmaking.body", MATCHMAKE_BODY_LIMIT, "bytes", "the body of a matchmaking request"),
  limit("room.open", PROJECT_ROOMS_MAX, "items", "open rooms of a project"),
  limit("room.sockets", PLAYER_SOCKETS_MAX, "items", "sockets of one player over all rooms"),
  limit("evaluation.steps.rules", RULE_STEPS_MAX, "steps", "the rules that one event sets off, together"),
  limit(
    "evaluation.steps.upkeep",
    UPKEEP_STEPS_MAX,
    "steps",
    "what counts one event, such as boards, together",
  ),
  limit("evaluation.steps.explaining", EXPLAIN_STEPS_MAX, "steps", "showing what those rules saw"),
  limit("evaluation.steps.written", WRITTEN_STEPS_MAX, "steps", "what those rules write"),
  limit(
    "evaluation.steps.change",
    CHANGE_STEPS_MAX,
    "steps",
    "rules, for all players whom a request changes",
  ),
  limit(
    "evaluation.steps.change.written",
    CHANGE_WRITTEN_STEPS_MAX,
    "steps",
    "what rules write, for all players whom a request changes",
  ),
  limit("evaluation.derived", DERIVED_MAX, "items", "events that one event sets off"),
  limit("evaluation.depth", DEPTH_MAX, "levels", "events that set one another off in a row"),
  limit("list.limit.default", PAGE_LIMIT_DEFAULT, "items", "a page when `limit` is not given"),
  limit("list.limit", PAGE_LIMIT_MAX, "items", "a page"),
  limit("list.depth", PAGE_DEPTH_MAX, "items", "how far pages may reach"),
  limit(
    "list.depth.unindexed",
    UNINDEXED_DEPTH_MAX,
    "items",
    "how far pages of players may reach in another order than createdAt or externalUserId",
  ),
  limit(
    "list.bytes",
    PAGE_BYTES_MAX,
    "bytes",
    "a page of documents that may have 16 KiB or more; one is always shown",
  ),
];
