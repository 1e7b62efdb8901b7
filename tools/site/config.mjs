// The static site of the documentation. The pages are those of the repository:
// links between them stay relative, and links to other files lead to the
// repository.
import { existsSync, statSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = process.cwd()
const source = fileURLToPath(new URL('..', import.meta.url)) // a copy of the pages
const repository = 'https://github.com/seed-ff2cb582/leader'

const title = path => readFileSync(join(source, path), 'utf8').match(/^# (.*)/m)?.[1].replaceAll('`', '') ?? path
const pages = dir => readdirSync(join(source, dir), { withFileTypes: true }).flatMap(entry => {
  const path = join(dir, entry.name)
  if (entry.isDirectory()) return [{ text: entry.name, collapsed: true, items: pages(path) }]
  return entry.name.endsWith('.md') ? [{ text: title(path), link: '/' + path.replace(/README\.md$/, '').replace(/\.md$/, '') }] : []
})

// A link to a file that is not a page leads to the repository.
const toRepository = md => {
  const rule = (name, attribute) => {
    const before = md.renderer.rules[name] ?? ((tokens, i, options, env, self) => self.renderToken(tokens, i, options))
    md.renderer.rules[name] = (tokens, i, options, env, self) => {
      const [path, anchor] = (tokens[i].attrGet(attribute) ?? '').split('#')
      const target = relative(root, join(root, dirname(env.relativePath), decodeURI(path)))
      if (path && existsSync(join(source, target, 'README.md'))) {
        tokens[i].attrSet(attribute, path.replace(/\/?$/, '/'))
      } else if (path && !/^(\w+:|\/)/.test(path) && existsSync(join(root, target)) && !existsSync(join(source, target))) {
        const kind = statSync(join(root, target)).isDirectory() ? 'tree' : 'blob'
        tokens[i].attrSet(attribute, `${repository}/${kind}/main/${target}` + (anchor ? '#' + anchor : ''))
      }
      return before(tokens, i, options, env, self)
    }
  }
  rule('link_open', 'href')
}

export default {
  outDir: join(root, '.out/site'),
  title: 'leader',
  vite: { build: { chunkSizeWarningLimit: 5000 } }, // the search index is one file
  rewrites: { 'README.md': 'index.md', 'docs/README.md': 'docs/index.md', 'docs/contributing/adr/README.md': 'docs/contributing/adr/index.md' },
  markdown: { config: toRepository },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    sidebar: [{ text: 'README', link: '/' }, ...pages('docs')],
    nav: [{ text: 'Documentation', link: '/docs/' }, { text: 'Repository', link: repository }],
  },
}
