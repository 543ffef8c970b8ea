import { z } from "zod";
import { invalid } from "./errors.ts";

export const PAGE_LIMIT_DEFAULT = 20;
export const PAGE_LIMIT_MAX = 100;
/** Maximum bytes of documents on a page of those that may have 16 KiB or more; one is always shown. */
export const PAGE_BYTES_MAX = 1024 * 1024;
/** Maximum of `page * limit`; deeper reading goes through filters. */
export const PAGE_DEPTH_MAX = 1_000_000;
/** The same of a large table that is sorted by a column without an index. */
export const UNINDEXED_DEPTH_MAX = 100_000;

export const PageQuery = z.object({
  page: z.coerce.number().int().min(1).max(PAGE_DEPTH_MAX).default(1),
  limit: z.coerce.number().int().min(1).max(PAGE_LIMIT_MAX).default(PAGE_LIMIT_DEFAULT),
});
export type PageQuery = z.infer<typeof PageQuery>;

export type Page<T> = {
  data: T[];
  pagination: { page: number; limit: number; total: number; totalPages: number };
};

export const pageOf = <T>(data: T[], total: number, { page, limit }: PageQuery): Page<T> => ({
  data,
  pagination: { page, limit, total, totalPages: Math.ceil(total / limit) },
});

/** @throws DomainError VALIDATION_ERROR beyond `depthMax` */
export const offsetOf = ({ page, limit }: PageQuery, depthMax = PAGE_DEPTH_MAX): number => {
  if (page * limit > depthMax) throw invalid("page", `page times limit may be at most ${depthMax}`);
  return (page - 1) * limit;
};

/** Builds the response schema of a list of `item`. */
export const pageBody = <S extends z.ZodType>(item: S) =>
  z.object({
    data: z.array(item),
    pagination: z.object({ page: z.int(), limit: z.int(), total: z.int(), totalPages: z.int() }),
  });
