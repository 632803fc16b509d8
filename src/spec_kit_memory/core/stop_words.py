"""Which English words carry no information about a memory by themselves?"""

from __future__ import annotations

# Words that occur around names rather than in them. Ordinary stop words are in `core.words`.
_PLAIN = """
able accordingly across act actual actually add added adding adds ago ahead allow allowed allows almost alone
along already also although always among another anything appear approach appropriate around ask asked away back
based become becomes began begin behind believe best better big bit bring brought building built call called
came cannot care cause certain changed changing checked checking clear clearly come comes common complete
completed completely comprehensive concern consider consist contain contained containing contains continue
continued correct correctly cover covered covers create created creates creating current currently deal decide
decided describe described detailed did different directly discuss discussed done down during each early easily
easy edit edited effort either else ended enough ensure ensured ensures entire entirely especially etc even
eventually ever every everything exactly exist existing exists expect expected explain explained explicit fact
far few final finally find finding first five fix fixed fixes fixing follow followed following follows found
four full fully further gave general generally get gets getting give given gives giving go goes going gone good
got great had half happen happened hard hello help helped helps hence high highly however identified identify
implement implemented implementing important improve improved include included includes including indeed initial
initially inside instead involve keep keeps kept knew know known large largely last later latest lead leads
least leave left less let like likely listed little long longer look looked looking looks low made main mainly
maintain make makes making many mark marked massive massively may maybe mean means meant meet mention mentioned
merely might minor miss missing modified modify moreover mostly move moved much multiple must named namely near
nearly necessary need needed needs neither never nevertheless new newly next nice nine none note noted notes
nothing notice now numerous observation obvious occur often okay old one ones onto open opposed original others
otherwise overall particular particularly past per perform performed perhaps planned please pointed possible
possibly present previous previously probably proceed produce proper properly provide provided provides
providing put quick quickly quite rather reach reached read reading reads ready real really recent recently
refer regarding relate related relevant remain remaining remains remember remove removed removing replace
replaced reported requested require required requires resolve resolved respective rest resulted return returned
returns right run running runs said same saw say says second see seem seems seen select send sent separate sets
seven several shall short show showed shown shows significant similar similarly simple simply since single six
small solid something sometimes soon specific specifically started starting stay still stop successful
successfully such suggest suggested supported supports sure take taken takes taking tell ten tend tested testing
thank thanks therefore think third though thought three throughout thus today together told took toward towards
tried true try trying turned two typical typically ultimately understand unless unlike updated updating upon us
use used useful uses using usually various via vs wait want wanted wants well went whatever whenever whereas
wherever whether whole whose wide within without worked working works worth write writing written wrong wrote
yes yet zero
"""
# Words that headings are made of in any project: even two of them together name nothing in particular.
_DOCUMENT = """
acceptance achievement achievements action actions alternative alternatives analysis architecture artifact
artifacts aspect assessment assumption assumptions background benefit benefits blocker blockers board bug bugs
case cases caveat change changelog changes check code command commands commit component components conclusion
condition conditions consideration considerations considered constraint constraints content context conversation
coverage criteria data date day days decision decisions deliverable deliverables dependencies dependency
description design detail detailed details development diagram direction directory discovery document
documentation documents end environment error errors estimate evaluation evidence example examples execution
expectation expectations external failure feature feedback file files finding findings folder folders follow-up
format function functionality functions future goal goals group guidance guide guidelines high-level history
idea impact implementation implementations information input insight insights instance instruction instructions
integration internal issue issues item items job key kind lesson lessons level limitation limitations line lines
list location locations log logic lot matter memory message messages method methodology metric metrics migration
milestone mode module modules moment month months name number objective objectives operation option outcome
outcomes output overview package page parameter parameters part parts path paths pattern patterns phase phases
place plan point points practice practices primary priorities priority problem procedure process progress
project proposal purpose quality question rationale reason recommendation recommendations recommended record
reference references report request requirement requirements research resolution resource resources response
result results review risk risks root scenario scope script scripts secondary section sense service session set
setting side snapshot solution solutions source spec specification specifications specs stage start state
statistics status step steps story strategy structure style success sum summary support system table target
targets task tasks team technical template templates term test tests thing things time timeline times todo tool
tooling tools top topic topics total tracking trade-off trade-offs turn type update updates user validation
value values verification verified version view watch way ways week weeks word words work workflow workflows
year years
"""
_EXTENSIONS = """
c cc cfg conf cpp cs css csv db go h hpp html ini ipynb java js json jsonc jsonl jsx kt lock lua md mdx mjs php
pl ps1 py pyi r rb rs scss sh sql sqlite svelte swift tf toml ts tsx txt vue xml yaml yml zig
"""
# Files that most folders have, so that naming one says nothing about a memory.
_COMMON_FILES = """
readme.md spec.md plan.md tasks.md checklist.md decision-record.md implementation-summary.md research.md
handover.md memory.md agents.md claude.md skill.md changelog.md package.json index.js index.ts main.py
__init__.py config.json metadata.json license.md
"""

PLAIN = frozenset(_PLAIN.split())
DOCUMENT = frozenset(_DOCUMENT.split())
EXTENSIONS = frozenset(_EXTENSIONS.split())
COMMON_FILES = frozenset(_COMMON_FILES.split())
