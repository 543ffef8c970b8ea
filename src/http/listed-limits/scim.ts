import {
  SCIM_EMAILS_MAX,
  SCIM_MEMBERS_MAX,
  SCIM_OPERATIONS_MAX,
  SCIM_TEXT_MAX,
} from "../../domain/accounts/scim/draft.ts";
import { SCIM_COMPARISONS_MAX, SCIM_FILTER_MAX } from "../../domain/accounts/scim/filter.ts";
import { SCIM_GROUPS_MAX } from "../../domain/accounts/scim/groups.ts";
import {
  SCIM_PAGE_MAX,
  SCIM_SHOWN_GROUPS_MAX,
  SCIM_SHOWN_MEMBERS_MAX,
} from "../../domain/accounts/scim/query.ts";
import { SCIM_TOKENS_MAX } from "../../domain/accounts/scim/tokens.ts";
import { SCIM_USER_MAX_BYTES } from "../scim/discovery.ts";
import { type Limit, limit } from "./limit.ts";

/** Limits of identity providers that speak SCIM. */
export const SCIM_LIMITS: readonly Limit[] = [
  limit("scim.tokens", SCIM_TOKENS_MAX, "items", "tokens of a tenant for SCIM that work"),
  limit("scim.groups", SCIM_GROUPS_MAX, "items", "groups of a tenant by SCIM"),
  limit("scim.group.members", SCIM_MEMBERS_MAX, "items", "members of a group by SCIM, and of one request"),
  limit("scim.page", SCIM_PAGE_MAX, "items", "users or groups of a page by SCIM"),
  limit("scim.page.groups", SCIM_SHOWN_GROUPS_MAX, "items", "groups of all users of such a page"),
  limit("scim.page.members", SCIM_SHOWN_MEMBERS_MAX, "items", "members of all groups of such a page"),
  limit("scim.patch.operations", SCIM_OPERATIONS_MAX, "items", "operations of a PATCH by SCIM"),
  limit("scim.user", SCIM_USER_MAX_BYTES, "bytes", "the body of a request that changes a user by SCIM"),
  limit("scim.user.emails", SCIM_EMAILS_MAX, "items", "addresses of a user by SCIM, of which one is kept"),
  limit("scim.filter", SCIM_FILTER_MAX, "bytes", "a filter by SCIM, in characters"),
  limit("scim.filter.comparisons", SCIM_COMPARISONS_MAX, "items", "comparisons of a filter by SCIM"),
  limit("scim.text", SCIM_TEXT_MAX, "bytes", "a text such as a userName by SCIM, in characters"),
];
