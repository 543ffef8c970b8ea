import { z } from "zod";
import { IsoTime } from "../../domain/kernel/iso-time.ts";
import {
  getBlogPost,
  listBlogPosts,
  showBlogPost,
  syncBlogPosts,
  SYNCED_POSTS_MAX,
} from "../../domain/accounts/blog/sync.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { group } from "../route.ts";
import { Flag, Order, pageReply } from "./bodies.ts";

const SLUG_MAX = 120;
const TITLE_MAX = 255;
const TAGS_MAX = 20;
const TAG_MAX = 64;
const EXCERPT_MAX = 500;
const AUTHOR_MAX = 120;
/** Enough for 500 posts of maximum size. */
const SYNC_BODY_LIMIT = 5 * 1024 * 1024;

const Tag = z.string().trim().min(1).max(TAG_MAX);
const Slug = z
  .string()
  .max(SLUG_MAX)
  .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, "must be words of a-z and 0-9 with single hyphens between them");
/** Years that both the database and ISO 8601 can represent. */
const DATE_MIN_MS = Date.parse("0001-01-01T00:00:00Z");
const DATE_MAX_MS = Date.parse("9999-12-31T23:59:59.999Z");
const PostDate = z
  .union([z.iso.date(), IsoTime], {
    error: "must be YYYY-MM-DD or an ISO 8601 date-time with a zone",
  })
  .refine((text) => Date.parse(text) >= DATE_MIN_MS && Date.parse(text) <= DATE_MAX_MS, {
    error: "must be in the years 1 to 9999",
  })
  .meta({ description: "YYYY-MM-DD (midnight UTC) or an ISO 8601 date-time", example: "2026-03-01" });

const PostInput = z.object({
  slug: Slug.meta({ example: "season-two" }),
  title: z.string().trim().min(1).max(TITLE_MAX),
  postDate: PostDate,
  tags: z.array(Tag).max(TAGS_MAX).default([]),
  featured: z.boolean().default(false),
  draft: z.boolean().default(false),
  excerpt: z.string().max(EXCERPT_MAX).nullish(),
  author: z.string().max(AUTHOR_MAX).nullish(),
});

const BlogPostBody = z
  .object({
    slug: z.string(),
    title: z.string().meta({ description: "Text, not HTML: escape it where you show it" }),
    tags: z.array(z.string()),
    featured: z.boolean(),
    postDate: z.iso.datetime(),
    excerpt: z.string().nullable(),
    author: z.string().nullable(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "BlogPost" });

const common = group({ tag: "Blog", project: "none" });

export const blogRoutes = [
  common.post("/superadmin/blog-posts/sync", "syncBlogPosts", {
    summary: "Sync blog posts",
    description:
      "Creates the posts whose slug is new and makes the others as they are in this call, all or none. " +
      "Fields that are left out take their defaults. Posts that are not in the call are kept. `total` " +
      "counts the posts of the call; those that were the same already are neither `created` nor `updated`.",
    access: { admin: "blog:sync" },
    body: z.object({ posts: z.array(PostInput).max(SYNCED_POSTS_MAX) }),
    example: { posts: [{ slug: "season-two", title: "Season two", postDate: "2026-03-01", tags: ["news"] }] },
    bodyLimit: SYNC_BODY_LIMIT,
    response: z.object({
      success: z.literal(true),
      message: z.string().meta({ example: "2 created, 1 updated, 7 unchanged" }),
      created: z.int(),
      updated: z.int(),
      total: z.int(),
    }),
    run: (work, { body }) =>
      syncBlogPosts(
        work,
        body.posts.map(({ postDate, excerpt = null, author = null, ...post }) => ({
          ...post,
          postDate: new Date(postDate),
          excerpt,
          author,
        })),
      ),
  }),
  common.get("/blog-posts", "listBlogPosts", {
    summary: "List blog posts",
    description: "Newest first; drafts are not shown.",
    access: "public",
    query: PageQuery.extend({
      sort: z.enum(["postDate"]).default("postDate"),
      order: Order,
      tag: z.string().min(1).max(TAG_MAX).optional(),
      featured: Flag,
    }),
    response: pageBody(BlogPostBody),
    run: async (work, { query }) => pageReply(await listBlogPosts(work, query), "rows", query, showBlogPost),
  }),
  common.get("/blog-posts/{slug}", "getBlogPost", {
    summary: "Get a blog post",
    access: "public",
    params: z.object({ slug: z.string().max(SLUG_MAX) }),
    response: BlogPostBody,
    run: async (work, { params }) => showBlogPost(await getBlogPost(work, params.slug)),
  }),
];
