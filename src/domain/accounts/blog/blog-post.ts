import { defineEntity, p } from "@mikro-orm/core";

export const BlogPostSchema = defineEntity({
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
