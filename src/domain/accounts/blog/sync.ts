import { defineEntity, type FilterQuery, p } from "@mikro-orm/core";
import { sql } from "kysely";
import { audit } from "../audit/audit.ts";
import { DomainError, notFound } from "../../kernel/errors.ts";
import type { PageQuery } from "../../kernel/paging.ts";
import { hasTags } from "../../kernel/db.ts";
import { findPage, type Total, type Work } from "../../kernel/work.ts";
import { definedOf, shown } from "../../kernel/json.ts";

const BlogPostSchema = defineEntity({
  name: "BlogPost",
  tableName: "blog_posts",
  properties: {
    slug: p.text().primary(),
    title: p.text(),
    tags: p.array(),
    featured: p.boolean(),
    draft: p.boolean(),
    postDate: p.datetime(3),
    excerpt: p.text().nullable(),
    author: p.text().nullable(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});
/** An entry in a site's list of articles; the text is stored elsewhere. */
export class BlogPost extends BlogPostSchema.class {}
BlogPostSchema.setClass(BlogPost);

type BlogQuery = PageQuery & {
  order: "asc" | "desc";
  tag?: string | undefined;
  featured?: boolean | undefined;
};

/** A post as returned by the API. */
export const showBlogPost = (post: BlogPost) =>
  shown(post, ["slug", "title", "tags", "featured", "postDate", "excerpt", "author", "updatedAt"]);

/** Returns published posts by date. */
export const listBlogPosts = async (work: Work, query: BlogQuery): Promise<Total & { rows: BlogPost[] }> => {
  const { order, tag, featured } = query;
  const where: FilterQuery<BlogPost> = {
    draft: false,
    ...(tag === undefined ? {} : { [hasTags([tag])]: [] }),
    ...definedOf({ featured }),
  };
  return findPage(work, BlogPost, where, { query, orderBy: { postDate: order, slug: order } });
};

/** @throws NOT_FOUND also for a draft */
export const getBlogPost = async ({ em }: Work, slug: string): Promise<BlogPost> => {
  const post = await em.findOne(BlogPost, { slug, draft: false });
  if (!post) throw notFound("Blog post");
  return post;
};

export const SYNCED_POSTS_MAX = 500;

type SyncedPost = {
  slug: string;
  title: string;
  postDate: Date;
  tags: string[];
  featured: boolean;
  draft: boolean;
  excerpt: string | null;
  author: string | null;
};

/**
 * Creates or updates the posts with these slugs; others are kept.
 * @throws VALIDATION_ERROR when a slug occurs twice
 */
export const syncBlogPosts = async (work: Work, posts: readonly SyncedPost[]) => {
  refuseTwins(posts);
  const at = work.now.toISOString();
  // In the order of slugs, so that two calls cannot deadlock.
  const sorted = posts.toSorted((a, b) => (a.slug < b.slug ? -1 : 1));
  const { rows } = await sql<{ slug: string; is_new: boolean }>`
    insert into blog_posts as b
      (slug, title, tags, featured, draft, post_date, excerpt, author, created_at, updated_at)
    select r.slug, r.title, array(select json_array_elements_text(r.tags)), r.featured, r.draft,
      r."postDate", r.excerpt, r.author, ${at}::timestamptz, ${at}::timestamptz
    from json_to_recordset(${JSON.stringify(sorted)}::json)
      as r(slug text, title text, tags json, featured boolean, draft boolean,
        "postDate" timestamptz, excerpt text, author text)
    on conflict (slug) do update set title = excluded.title, tags = excluded.tags,
      featured = excluded.featured, draft = excluded.draft, post_date = excluded.post_date,
      excerpt = excluded.excerpt, author = excluded.author, updated_at = excluded.updated_at
    where (b.title, b.tags, b.featured, b.draft, b.post_date, b.excerpt, b.author)
      is distinct from (excluded.title, excluded.tags, excluded.featured, excluded.draft,
        excluded.post_date, excluded.excerpt, excluded.author)
    returning b.slug, (b.xmax = 0) as is_new`.execute(work.db);
  const created = rows.filter((row) => row.is_new).length;
  const updated = rows.length - created;
  const total = posts.length;
  await audit(work, {
    action: "blog_posts.synced",
    target: { type: "blog", id: "blog" },
    tenantId: null,
    data: { created, updated, total },
  });
  const message = `${created} created, ${updated} updated, ${total - rows.length} unchanged`;
  return { success: true as const, message, created, updated, total };
};

const refuseTwins = (posts: readonly SyncedPost[]): void => {
  const seen = new Set<string>();
  const details = posts.flatMap(({ slug }, at) => {
    const isTwin = seen.has(slug);
    seen.add(slug);
    return isTwin ? [{ field: `posts.${at}.slug`, message: `the slug ${slug} is in this call twice` }] : [];
  });
  const [first] = details;
  if (first) throw new DomainError("VALIDATION_ERROR", `${first.field}: ${first.message}`, { details });
};
