import { z } from "zod";
import { invalidValue } from "../../domain/accounts/scim/error.ts";
import { attributeName, type Comparison, parseFilter } from "../../domain/accounts/scim/filter.ts";
import { SCIM_PAGE_MAX, type ScimPage } from "../../domain/accounts/scim/query.ts";

/** Characters of `attributes` and `excludedAttributes`. */
const ATTRIBUTES_MAX = 2_000;
/** Beyond this no tenant has resources. */
const INDEX_MAX = 1_000_000_000;

/** Providers add parameters of their own. The length of the filter is checked by its parser. */
export const ListQuery = z.looseObject({
  filter: z.string().optional(),
  startIndex: z.string().optional(),
  count: z.string().optional(),
  attributes: z.string().max(ATTRIBUTES_MAX).optional(),
  excludedAttributes: z.string().max(ATTRIBUTES_MAX).optional(),
});
export type ListParameters = z.output<typeof ListQuery>;

const integerOf = (name: string, text: string | undefined, usual: number): number => {
  if (text === undefined || text === "") return usual;
  if (!/^-?[0-9]{1,15}$/.test(text)) throw invalidValue(name, "must be an integer");
  return Number(text);
};

const clamped = (value: number, least: number, most: number): number =>
  Math.min(Math.max(value, least), most);

/**
 * Returns where a page begins, and its size. Numbers below the least count as that (RFC 7644, 3.4.2.4).
 * @throws ScimError invalidValue
 */
export const pageOf = ({ startIndex, count }: ListParameters): ScimPage => ({
  startIndex: clamped(integerOf("startIndex", startIndex, 1), 1, INDEX_MAX),
  count: clamped(integerOf("count", count, SCIM_PAGE_MAX), 0, SCIM_PAGE_MAX),
});

/** Returns the comparisons of a filter; none without one. @throws ScimError invalidFilter */
export const filterOf = ({ filter }: ListParameters): Comparison[] =>
  filter === undefined || filter.trim() === "" ? [] : parseFilter(filter);

const rootsOf = (text: string | undefined): Set<string> | undefined =>
  text === undefined || text.trim() === ""
    ? undefined
    : new Set(text.split(",").map((name) => attributeName(name.trim()).split(".", 1)[0] ?? ""));

const ALWAYS: ReadonlySet<string> = new Set(["schemas", "id"]);

/**
 * Returns what leaves out of a resource what is not wanted: whole attributes, since a part of one is not
 * worth the trouble. `has`: whether an attribute is wanted.
 */
export const selectionOf = ({ attributes, excludedAttributes }: ListParameters) => {
  const [wanted, unwanted] = [rootsOf(attributes), rootsOf(excludedAttributes)];
  const has = (name: string): boolean => {
    const lower = name.toLowerCase();
    if (ALWAYS.has(lower)) return true;
    return wanted ? wanted.has(lower) : !unwanted?.has(lower);
  };
  const select = (resource: object): object =>
    wanted || unwanted
      ? Object.fromEntries(Object.entries(resource).filter(([name]) => has(name)))
      : resource;
  return { has, select };
};
