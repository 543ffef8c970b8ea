import type { FilterQuery } from "@mikro-orm/core";
import { countUpTo, type Total } from "../../kernel/counting.ts";
import { notFound } from "../../kernel/errors.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import type { Work } from "../../kernel/work.ts";
import { BlogPost } from "./blog-post.ts";

export type BlogQuery = PageQuery & {
  order: "asc" | "desc";
  tag?: string | undefined;
  featured?: boolean | undefined;
};

/** A post as returned by the API. */
export type ShownBlogPost = {
  slug: string;
  title: string;
  tags: string[];
  featured: boolean;
  postDate: string;
  excerpt: string | null;
  author: string | null;
  updatedAt: string;
};

export const showBlogPost = (post: BlogPost): ShownBlogPost => ({
  slug: post.slug,
  title: post.title,
  tags: post.tags,
  featured: post.featured,
  postDate: post.postDate.toISOString(),
  excerpt: post.excerpt ?? null,
  author: post.author ?? null,
  updatedAt: post.updatedAt.toISOString(),
});

/** Returns published posts by date. */
export const listBlogPosts = async (work: Work, query: BlogQuery): Promise<Total & { posts: BlogPost[] }> => {
  const { order, tag, featured } = query;
  const where: FilterQuery<BlogPost> = {
    draft: false,
    ...(tag === undefined ? {} : { tags: { $contains: [tag] } }),
    ...(featured === undefined ? {} : { featured }),
  };
  const posts = await work.em.find(BlogPost, where, {
    orderBy: { postDate: order, slug: order },
    limit: query.limit,
    offset: offsetOf(query),
  });
  return { posts, ...(await countUpTo(work, BlogPost, where)) };
};

/** @throws NOT_FOUND also for a draft */
export const getBlogPost = async ({ em }: Work, slug: string): Promise<BlogPost> => {
  const post = await em.findOne(BlogPost, { slug, draft: false });
  if (!post) throw notFound("Blog post");
  return post;
};
